#include "nn/against.hpp"

#include <algorithm>
#include <cmath>

#include "nn/against/alter.hpp"
#include "nn/against/guess.hpp"
#include "nn/against/precision.hpp"
#include "nn/against/replay.hpp"

namespace tete {

namespace {

constexpr std::string_view gradient_of = "grad:";
using Verdict = TensorReport::Verdict;

Tensor in_double(const Tensor& x) { return is_real(x.dtype()) ? cast(x, Dtype::f64) : x; }

double largest_of(const std::vector<double>& numbers) {
  double most = 0;
  for (double x : numbers)
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  return most;
}

// Where two tensors are farthest apart; a NaN that only one has is infinitely far.
struct Farthest {
  double apart = 0;
  size_t at = 0;
};
Farthest farthest(const std::vector<double>& x, const std::vector<double>& y,
                  const std::vector<bool>& ignored) {
  Farthest found;
  for (size_t i = 0; i < x.size(); ++i) {
    if ((!ignored.empty() && ignored[i]) || x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])))
      continue;
    const double apart = std::abs(x[i] - y[i]);
    if (std::isfinite(apart) ? apart > found.apart : std::isfinite(found.apart))
      found = {std::isfinite(apart) ? apart : INFINITY, i};
  }
  return found;
}

class Comparison {
 public:
  Comparison(std::shared_ptr<const Checked> program, const TensorsByName& theirs,
             const AgainstOptions& options)
      : given_(theirs), options_(options) {
    theirs_.program = std::move(program);
    theirs_.options.sizes = options.sizes;
    theirs_.options.mask = options.mask;
    take_arguments();
    take_values();
    take_gradients();
    if (suspects_.empty())
      bad_input("there is nothing to compare: of what '", checked().name,
                "' computes, none was given; expected any of ", names_of_statements());
  }

  AgainstReport report() {
    find_tolerances();
    for (const Entry& entry : suspects_) judge(entry);
    note_what_is_only_written();
    return std::move(report_);
  }

 private:
  // One tensor of theirs, and what the text makes of it.
  struct Entry {
    int value = -1;
    bool gradient = false;
    Tensor theirs, from_theirs, from_ours;
    std::vector<bool> ignored = {};
    double rounding = 0, rounding_from_ours = 0;  // what rounding does to the text's
    std::string shape = {};                       // what is wrong with it
  };

  const Checked& checked() const { return *theirs_.program; }
  const CheckedValue& value(int i) const { return theirs_.value(i); }
  int count() const { return static_cast<int>(checked().values.size()); }

  // ---- What they gave ---------------------------------------------------------------------------

  void take_arguments() {
    for (int i = 0; i < count(); ++i) {
      const std::string& name = theirs_.name(i);
      const bool fresh = numbers_.try_emplace(name, i).second;
      const auto given = given_.find(name);
      if (fresh && theirs_.is_argument(i) && given != given_.end())
        theirs_.arguments[name] = in_double(given->second);
    }
    for (const auto& [name, x] : given_) {
      const std::string of = name.starts_with(gradient_of) ? name.substr(gradient_of.size()) : name;
      if (!numbers_.contains(of)) report_.unknown.push_back(name);
    }
  }

  void take_values() {
    Evaluation ours(theirs_.program, theirs_.arguments, theirs_.options);
    for (int i = 0; i < count(); ++i) shapes_.push_back(ours.value(i).shape());
    for (int i = 0; i < count(); ++i) {
      const auto given = given_.find(theirs_.name(i));
      if (theirs_.is_argument(i) || given == given_.end() || numbers_.at(given->first) != i)
        continue;
      Entry entry{
          .value = i, .theirs = in_double(given->second), .from_theirs = {}, .from_ours = {}};
      if (fit(entry, ours.value(i))) {
        entry.ignored = masked_already(entry, ours);
        theirs_.values[i] = entry.theirs;
        computed_.push_back(given->second);
      }
      suspects_.push_back(std::move(entry));
    }
  }

  void take_gradients() {
    std::vector<int> of;
    for (int i = 0; i < count(); ++i)
      if (numbers_.at(theirs_.name(i)) == i && given_.contains(gradient_name(i))) of.push_back(i);
    if (of.empty()) return;
    if (!std::count(of.begin(), of.end(), checked().result))
      bad_input("there are gradients, but not the cotangent '", gradient_name(checked().result),
                "' that they come from; after ", theirs_.name(checked().result),
                ".sum().backward() it is all ones");
    // As they are computed: that of a value is whole once its first use has given its share.
    std::stable_sort(of.begin(), of.end(),
                     [&](int a, int b) { return first_use(a) > first_use(b); });
    for (int i : of) {
      Entry entry{.value = i,
                  .gradient = true,
                  .theirs = in_double(given_.at(gradient_name(i))),
                  .from_theirs = {},
                  .from_ours = {}};
      const bool is_cotangent = i == checked().result;
      const Tensor like = theirs_.is_argument(i) ? theirs_.arguments.at(theirs_.name(i))
                                                 : Tensor::zeros(shapes_[static_cast<size_t>(i)]);
      if (value(i).element != Element::real)
        bad_input("'", gradient_name(i), "': whole numbers and truth values have no gradient");
      if (fit(entry, like)) {
        theirs_.gradients[i] = entry.theirs;
        if (!is_cotangent) computed_.push_back(given_.at(gradient_name(i)));
      } else if (is_cotangent) {
        bad_input("the cotangent '", gradient_name(i), "' ", entry.shape);
      }
      if (!is_cotangent) suspects_.push_back(std::move(entry));
    }
  }

  std::string gradient_name(int i) const { return std::string(gradient_of) + theirs_.name(i); }
  int first_use(int i) const {
    for (int s = i + 1; s < count(); ++s)
      if (std::count(value(s).uses.begin(), value(s).uses.end(), i) > 0) return s;
    return count();
  }

  std::string names_of_statements() const {
    std::string all;
    for (int i = 0; i < count(); ++i)
      if (value(i).kind == CheckedValue::Kind::statement && value(i).watched)
        all += (all.empty() ? "" : ", ") + theirs_.name(i);
    return all;
  }

  // Whether the shape is `like`'s. If only the order of the dimensions is another, and there is one
  // order that fits, theirs is taken in that.
  bool fit(Entry& entry, const Tensor& like) const {
    if (!is_real(entry.theirs.dtype())) entry.theirs = cast(entry.theirs, Dtype::f64);
    const Tensor& x = entry.theirs;
    if (x.shape() == like.shape()) return true;
    entry.shape = text("has shape ", x.shape(), ", expected ", like.shape(), " = ",
                       axes_name(entry.value, like.rank(), {}));
    if (x.rank() != like.rank()) return false;
    std::vector<int> order;
    for (int i = 0; i < x.rank(); ++i) order.push_back(i);
    Axes fitting;
    int found = 0;
    do {
      bool fits = true;
      for (int i = 0; i < x.rank(); ++i)
        fits &= x.size(order[static_cast<size_t>(i)]) == like.size(i);
      if (fits && ++found == 1) fitting = Axes(std::span<const int>(order));
    } while (std::next_permutation(order.begin(), order.end()));
    if (found != 1) return false;
    Axes names(x.rank(), 0);
    for (int i = 0; i < x.rank(); ++i) names[fitting[i]] = i;
    entry.shape += text("; it looks like ", axes_name(entry.value, like.rank(), names));
    entry.theirs = permute(x, fitting);
    return true;
  }

  // "[batch, n, m, h]", or in another order.
  std::string axes_name(int i, int rank, const Axes& order) const {
    std::string all;
    for (int axis = 0; axis < rank; ++axis)
      all += (axis > 0 ? ", " : "") +
             axis_name(checked(), i, rank, order.empty() ? axis : order[axis]);
    return "[" + all + "]";
  }

  // Logits may have been written with the mask in them: very negative wherever it hides. That is
  // no difference, as their softmax does not look there.
  std::vector<bool> masked_already(const Entry& entry, Evaluation& run) const {
    constexpr double very_negative = -1e4;
    if (options_.mask.hides_nothing() || !enters_masked_softmax(checked(), entry.value)) return {};
    Tensor seen = run.visible(value(entry.value).dims);
    if (seen.rank() < entry.theirs.rank()) {
      Axes batch;
      for (int i = 0; i < entry.theirs.rank() - seen.rank(); ++i) batch.push_back(i);
      seen = expand(seen, batch, entry.theirs.shape());
    }
    const std::vector<double> visible = seen.values(), x = entry.theirs.values();
    std::vector<bool> hidden(x.size(), false);
    for (size_t i = 0; i < x.size(); ++i) {
      if (visible[i] != 0) continue;
      if (!(x[i] <= very_negative)) return {};
      hidden[i] = true;
    }
    return hidden;
  }

  // ---- What the text makes of it ----------------------------------------------------------------

  Tensors replayed(const std::vector<int>& of, bool gradients, From from,
                   const Rounding& rounding = {}) {
    return gradients ? replay_gradients(theirs_, of, from, {}, rounding)
                     : replay_values(theirs_, of, from, {}, rounding);
  }

  void find_tolerances() {
    const Precision precision = precision_of(computed_);
    report_.precision = precision.name;
    unit_ = precision.unit(), smallest_ = precision.smallest;
    for (const bool gradients : {false, true}) {
      std::vector<int> of;
      std::vector<Entry*> entries;
      for (Entry& entry : suspects_)
        if (entry.gradient == gradients) of.push_back(entry.value), entries.push_back(&entry);
      if (of.empty()) continue;
      for (const From from : {From::theirs, From::ours}) {
        const Tensors text = replayed(of, gradients, from);
        std::vector<double> rounding(of.size(), 0);
        for (uint64_t trial : {1, 2}) {
          const Tensors rounded = replayed(of, gradients, from, {unit_, Key(trial)});
          for (size_t i = 0; i < of.size(); ++i)
            rounding[i] =
                std::max(rounding[i], rounding_of(rounded[i], text[i], entries[i]->ignored));
        }
        for (size_t i = 0; i < of.size(); ++i) {
          (from == From::theirs ? entries[i]->from_theirs : entries[i]->from_ours) = text[i];
          (from == From::theirs ? entries[i]->rounding : entries[i]->rounding_from_ours) =
              rounding[i];
        }
      }
    }
  }

  static double rounding_of(const Tensor& rounded, const Tensor& text,
                            const std::vector<bool>& ignored) {
    const double apart = farthest(rounded.values(), text.values(), ignored).apart;
    return std::isfinite(apart) ? apart : 0;
  }

  double tolerance(const Tensor& text, double rounding) const {
    const double largest = largest_of(text.values());
    if (options_.tolerance > 0) return options_.tolerance * largest;
    return 8 * rounding + 4 * unit_ * largest + smallest_;
  }

  // ---- Verdicts ---------------------------------------------------------------------------------

  void judge(const Entry& entry) {
    TensorReport row;
    row.name = entry.gradient ? gradient_name(entry.value) : theirs_.name(entry.value);
    row.value = entry.value, row.gradient = entry.gradient, row.shape = entry.shape;
    const bool fits = entry.theirs.shape() == entry.from_theirs.shape();
    const bool right = fits && measure(entry, row);
    const bool right_from_ours = fits && agrees_with_ours(entry, row.from_ours);
    row.cause = right_from_ours ? "" : cause_of(entry, right);
    if (!row.shape.empty() || (!right && !right_from_ours && row.cause.empty()))
      row.verdict = Verdict::differs;
    else if (!row.cause.empty()) row.verdict = Verdict::follows;
    if (row.verdict == Verdict::differs) {
      if (report_.first < 0) report_.first = static_cast<int>(report_.tensors.size());
      row.cause = "";
      row.unseen = unseen_before(entry);
      if (fits && !right) row.guess = guess_at(theirs_, suspect(entry, row));
    }
    report_.tensors.push_back(std::move(row));
  }

  // Fills in how far it is from what their operands give; whether that is near enough.
  bool measure(const Entry& entry, TensorReport& row) const {
    const std::vector<double> x = entry.theirs.values(), y = entry.from_theirs.values();
    const Farthest worst = farthest(x, y, entry.ignored);
    row.largest = largest_of(y);
    row.difference = worst.apart;
    row.tolerance = tolerance(entry.from_theirs, entry.rounding);
    row.from_ours = farthest(x, entry.from_ours.values(), entry.ignored).apart;
    if (x.empty()) return true;
    row.theirs = x[worst.at], row.text = y[worst.at];
    row.entry =
        entry_name(checked(), entry.value, entry.theirs.shape(), static_cast<Index>(worst.at));
    return row.difference <= row.tolerance;
  }

  bool agrees_with_ours(const Entry& entry, double apart) {
    if (apart <= tolerance(entry.from_ours, entry.rounding_from_ours)) return true;
    // An input under another name may have been one tensor: its gradient is of both uses.
    const int other = theirs_.renamed_argument(entry.value);
    if (!entry.gradient || other < 0 || other == entry.value) return false;
    const Tensor both = replay_gradients(theirs_, {other}, From::ours)[0];
    return farthest(entry.theirs.values(), both.values(), {}).apart <=
           tolerance(both, entry.rounding_from_ours);
  }

  // What has been found to differ before, and may be why this does.
  std::string cause_of(const Entry& entry, bool right) const {
    for (const TensorReport& row : report_.tensors) {
      if (row.verdict != Verdict::differs) continue;
      const bool leads_here =
          entry.gradient ? right || (!row.gradient && is_made_through(entry.value, row.value))
                         : right && depends(entry.value, row.value);
      if (leads_here) return row.name;
    }
    return "";
  }
  bool is_made_through(int of, int statement) const {
    const std::vector<int> stretch = stretch_from(theirs_, of);
    return of == statement || std::count(stretch.begin(), stretch.end(), statement) > 0;
  }
  bool depends(int i, int on) const {
    std::vector<bool> made(static_cast<size_t>(count()), false);
    made[static_cast<size_t>(on)] = true;
    for (int k = on + 1; k <= i; ++k)
      for (int used : value(k).uses)
        if (made[static_cast<size_t>(used)]) made[static_cast<size_t>(k)] = true;
    return made[static_cast<size_t>(i)];
  }

  std::vector<int> unseen_before(const Entry& entry) const {
    if (entry.gradient) return {};
    std::vector<int> stretch = stretch_to(theirs_, entry.value);
    stretch.pop_back();
    return stretch;
  }

  Suspect suspect(const Entry& entry, const TensorReport& row) const {
    return {.value = entry.value,
            .gradient = entry.gradient,
            .theirs = entry.theirs,
            .text = entry.from_theirs,
            .ignored = entry.ignored,
            .tolerance = row.tolerance,
            .largest = row.largest,
            .unit = unit_};
  }

  // A value that differs although all that is made from it agrees.
  void note_what_is_only_written() {
    for (TensorReport& row : report_.tensors) {
      if (row.gradient || row.verdict != Verdict::differs || !row.shape.empty()) continue;
      int after = 0, wrong = 0;
      for (const TensorReport& other : report_.tensors) {
        if (other.gradient || other.value == row.value || !depends(other.value, row.value))
          continue;
        ++after;
        wrong += other.verdict != Verdict::agrees;
      }
      if (after == 0 || wrong > 0) continue;
      row.guess.statement = row.value;
      row.guess.sentence += row.guess.sentence.empty() ? "" : "; ";
      row.guess.sentence +=
          "what is made from it agrees, so another value may have been written under its name";
    }
  }

  const TensorsByName& given_;
  const AgainstOptions& options_;
  Theirs theirs_;
  std::map<std::string, int> numbers_;  // of values, by the name that they have for callers
  std::vector<Shape> shapes_;           // of every value
  std::vector<Entry> suspects_;
  Tensors computed_;  // theirs, in the type that they came in
  double unit_ = 0, smallest_ = 0;
  AgainstReport report_;
};

}  // namespace

AgainstReport check_against(std::shared_ptr<const Checked> program, const TensorsByName& theirs,
                            const AgainstOptions& options) {
  return Comparison(std::move(program), theirs, options).report();
}

std::string axis_name(const Checked& program, int value, int rank, int axis) {
  const CheckedValue& v = program.values[static_cast<size_t>(value)];
  const int batch = rank - v.dims.size();
  if (axis < batch) return batch == 1 ? "batch" : text("batch", axis);
  const std::string& full = program.dimensions[static_cast<size_t>(v.dims[axis - batch])].name;
  return full.substr(full.rfind('.') + 1);
}

std::string entry_name(const Checked& program, int value, const Shape& shape, Index number) {
  const CheckedValue& v = program.values[static_cast<size_t>(value)];
  const Strides strides = row_major(shape);
  std::string all;
  for (int axis = 0; axis < shape.size(); ++axis)
    all += text(axis > 0 ? ", " : "", axis_name(program, value, shape.size(), axis), "=",
                number / strides[axis] % shape[axis]);
  return v.name + "[" + all + "]";
}

}  // namespace tete
