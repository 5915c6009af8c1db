#include "nn/against/guess.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "nn/against/alter.hpp"
#include "nn/against/misreadings.hpp"

namespace tete {

namespace {

using Seen = std::function<Tensor(const Tensor&, Evaluation&)>;

bool contains(const std::vector<int>& list, int item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

class Guesser {
 public:
  Guesser(const Theirs& theirs, const Suspect& suspect)
      : theirs_(theirs),
        program_(*theirs.program),
        suspect_(suspect),
        target_(suspect.value),
        probe_(theirs.program, theirs.arguments, theirs.options) {
    if (suspect.gradient) {
      stretch_ = stretch_from(theirs, target_);
      for (int s : stretch_)
        for (int used : value(s).uses)
          if (used != target_ && !contains(operands_, used)) operands_.push_back(used);
    } else {
      stretch_ = stretch_to(theirs, target_, &operands_);
    }
    std::vector<int> all;
    for (int i = 0; i < count(); ++i) all.push_back(i);
    for (const Tensor& x : replay_values(theirs, all, From::theirs)) shapes_.push_back(x.shape());
  }

  Guess guess() {
    const bool found = is_nothing() || is_scaled() || is_confused(target_) ||
                       misses_a_slice(target_) || in_a_statement() || is_masked_elsewhere() ||
                       is_detached() || is_another() || is_out_of_order() || in_an_operand() ||
                       is_permuted() || is_somewhere() || is_rounding();
    return found ? found_ : Guess{};
  }

 private:
  // ---- Trials -----------------------------------------------------------------------------------

  int count() const { return static_cast<int>(program_.values.size()); }
  const CheckedValue& value(int i) const { return theirs_.value(i); }
  const std::string& name(int i) const { return theirs_.name(i); }
  const Shape& shape(int i) const { return shapes_[static_cast<size_t>(i)]; }
  bool is_real(int i) const { return value(i).element == Element::real; }

  bool found(int statement, std::string sentence) {
    found_ = {std::move(sentence), statement};
    return true;
  }

  // Whether the text with this change gives what theirs gives.
  bool fits(const Change& change) const {
    try {
      const Tensors made = suspect_.gradient
                               ? replay_gradients(theirs_, {target_}, From::theirs, change)
                               : replay_values(theirs_, {target_}, From::theirs, change);
      return explains(suspect_, made[0]);
    } catch (const Error& error) {
      if (error.kind() != Kind::input) throw;
      return false;  // this change makes no sense here
    }
  }
  bool fits_seen(int v, const Seen& seen) const {
    Change change;
    change.value = v, change.seen_as = seen;
    return fits(change);
  }
  bool fits_computed(int v, const std::function<Tensor(Evaluation&)>& computed) const {
    Change change;
    change.value = v, change.computed_as = computed;
    return fits(change);
  }
  // `misreading` of the suspect itself, or of what the text makes it from.
  bool fits_misreading(int v, const Misreading& misreading) const {
    if (v == target_) return explains(suspect_, misreading.of(suspect_.text));
    return fits_seen(v, [&](const Tensor& x, Evaluation&) { return misreading.of(x); });
  }

  // The statement where a change of `v` would have been made.
  int statement_of(int v) const {
    if (v == target_ || contains(stretch_, v)) return v;
    int first = v;
    for (int s : stretch_)
      if (contains(value(s).uses, v) && (first == v || s < first)) first = s;
    return first;
  }

  NamedAxes axes_of(int v) const {
    NamedAxes named{v == target_ && suspect_.gradient ? "the gradient" : name(v), {}, 0};
    const Shape& all = v == target_ ? suspect_.text.shape() : shape(v);
    named.batch = all.size() - value(v).dims.size();
    for (int axis = 0; axis < all.size(); ++axis)
      named.axes.push_back(axis_name(program_, v, all.size(), axis));
    return named;
  }
  const Dimension& dimension(int dim) const {
    return program_.dimensions[static_cast<size_t>(dim)];
  }

  // ---- The suspect and what the text makes of their values --------------------------------------

  bool is_nothing() {
    const std::vector<double> x = suspect_.theirs.values();
    if (std::any_of(x.begin(), x.end(), [](double number) { return number != 0; })) return false;
    return found(target_, suspect_.gradient
                              ? "it is zero: no gradient arrives here, as after a detach"
                              : "it is zero everywhere");
  }

  bool is_scaled() {
    const std::vector<double> x = suspect_.theirs.values(), y = suspect_.text.values();
    double xy = 0, yy = 0;
    for (size_t i = 0; i < x.size(); ++i)
      if (std::isfinite(x[i]) && (suspect_.ignored.empty() || !suspect_.ignored[i]))
        xy += x[i] * y[i], yy += y[i] * y[i];
    const double factor = xy / yy;
    if (!std::isfinite(factor) || factor == 0 || !explains(suspect_, suspect_.text * factor))
      return false;
    if (std::abs(factor + 1) * suspect_.largest <= suspect_.tolerance)
      return found(target_, "its sign is the opposite");
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.4g", factor);
    const std::string known = factor_names(factor);
    return found(target_,
                 text("it is the text's times ", digits, known.empty() ? "" : " = ", known));
  }

  struct Factor {
    std::string name;
    double value;
  };
  // Sizes and their roots; first those that the suspect and its operands have.
  std::vector<Factor> factors() const {
    std::vector<Factor> near, far;
    const auto add = [](std::vector<Factor>& to, const std::string& name, Index size) {
      const auto number = static_cast<double>(size);
      if (size < 2 || name.find('.') != std::string::npos) return;
      to.insert(to.end(), {{"1/√" + name, 1 / std::sqrt(number)},
                           {"√" + name, std::sqrt(number)},
                           {"1/" + name, 1 / number},
                           {name, number}});
    };
    for (int i = 0; i < static_cast<int>(program_.dimensions.size()); ++i)
      add(is_near(i) ? near : far, dimension(i).name, probe_.size(i));
    add(near, "batch", element_count(probe_.batch()));
    near.insert(near.end(), far.begin(), far.end());
    near.insert(near.end(), {{"log2(e)", 1 / std::log(2.0)},
                             {"1/log2(e)", std::log(2.0)},
                             {"1", 1},
                             {"2", 2},
                             {"1/2", 0.5}});
    return near;
  }
  bool is_near(int dim) const {
    const auto has = [&](int v) { return value(v).dims.contains(dim); };
    const std::vector<int>& uses = value(target_).uses;
    return has(target_) || std::any_of(uses.begin(), uses.end(), has);
  }
  // Up to two of them that come to this factor.
  std::string factor_names(double factor) const {
    const double apart = std::max(1e-9, suspect_.tolerance / suspect_.largest);
    std::string names;
    int count = 0;
    for (const Factor& f : factors())
      if (f.value != 1 && std::abs(std::abs(factor) / f.value - 1) <= apart && ++count <= 2)
        names += (names.empty() ? "" : " or ") + std::string(factor < 0 ? "-" : "") + f.name;
    return names;
  }

  bool is_confused(int v) {
    const Shape& of = v == target_ ? suspect_.text.shape() : shape(v);
    const NamedAxes named = axes_of(v);
    for (const Misreading& misreading : confused_dimensions(named, of))
      if (fits_misreading(v, misreading)) return found(statement_of(v), misreading.sentence);
    return false;
  }

  bool misses_a_slice(int v) {
    constexpr Index most = 16;  // of a dimension that is not of heads
    const Shape& of = v == target_ ? suspect_.text.shape() : shape(v);
    const NamedAxes named = axes_of(v);
    for (int axis = named.batch; axis < of.size(); ++axis) {
      const Dimension& d = dimension(value(v).dims[axis - named.batch]);
      if (of[axis] < 2 || d.role != Role::none || (!d.head && of[axis] > most)) continue;
      for (Index i = 0; i < of[axis]; ++i) {
        const Misreading misreading = without_slice(named, of, axis, i);
        if (fits_misreading(v, misreading))
          return found(statement_of(v),
                       misreading.sentence + (d.head ? ": that head is left out" : ""));
      }
    }
    return false;
  }

  bool is_permuted() {
    const std::string sentence =
        permuted_slices(axes_of(target_), suspect_.theirs, suspect_.text, suspect_.tolerance);
    return !sentence.empty() && found(target_, sentence);
  }

  // It is what the text calls by another name.
  bool is_another() {
    if (suspect_.gradient) return false;
    for (int w = 0; w < count(); ++w) {
      if (w == target_ || !is_real(w) || !(shape(w) == suspect_.text.shape())) continue;
      if (fits_computed(target_, [w](Evaluation& run) { return run.value(w); }))
        return found(target_, text("it is what the text calls ", name(w)));
    }
    return false;
  }

  // ---- Other texts ------------------------------------------------------------------------------

  bool in_a_statement() {
    for (auto s = stretch_.rbegin(); s != stretch_.rend(); ++s)
      for (const Alteration& alteration : alterations(program_, *s)) {
        Change change;
        change.program = alteration.program;
        if (fits(change)) return found(*s, alteration.sentence);
      }
    return false;
  }

  bool is_masked_elsewhere() {
    const Names pair = masked_pair(program_);
    if (pair.size() != 2) return false;
    int softmax = -1;
    for (int s : stretch_)
      if (takes_call_mask(value(s).right)) softmax = s;
    if (softmax >= 0)
      for (const OtherMask& other : other_masks(program_, probe_, theirs_.options.mask)) {
        Change change;
        change.mask = other.mask;
        if (fits(change)) return found(softmax, other.sentence);
      }
    if (theirs_.options.mask.hides_nothing() || suspect_.gradient) return false;
    for (const std::vector<int>* list : {&stretch_, &operands_})
      for (int j : *list)
        if (is_masked_early(j)) return true;
    return false;
  }

  static bool takes_call_mask(const Node& node) {
    return node.takes_call_mask || std::any_of(node.args.begin(), node.args.end(), takes_call_mask);
  }

  // The mask is applied to j, and something mixes it before the softmax.
  bool is_masked_early(int j) {
    const Names& dims = value(j).dims;
    const Names pair = masked_pair(program_);
    if (!is_real(j) || !dims.contains(pair[0]) || !dims.contains(pair[1]) ||
        enters_masked_softmax(program_, j))
      return false;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    for (double fill : {-1e9, -infinity, -1e4, 0.0, -1e10, -1e30, -1e6, -65504.0}) {
      Change change;
      change.value = j;
      change.seen_as = [&](const Tensor& x, Evaluation& run) {
        return hidden_as(x, dims, run, fill);
      };
      change.program = without_masks(program_);
      if (fits(change))
        return found(j == target_ ? j : statement_of(j),
                     text("as if the mask were applied to ", name(j),
                          ", where the text applies it in its softmax"));
    }
    return false;
  }
  static Tensor hidden_as(const Tensor& x, const Names& dims, Evaluation& run, double fill) {
    Tensor seen = run.visible(dims);
    if (seen.rank() < x.rank()) {
      Axes batch;
      for (int i = 0; i < x.rank() - seen.rank(); ++i) batch.push_back(i);
      seen = expand(seen, batch, x.shape());
    }
    return select(seen, x, Tensor::repeated(fill, x.shape(), x.dtype()));
  }

  // U is made before W, from what W is made from: mixing before the softmax instead of after.
  bool is_out_of_order() {
    if (suspect_.gradient) return false;
    for (int s = 0; s < count(); ++s)
      for (int u = s + 1; u < count(); ++u) {
        const int changed = contains(stretch_, u) ? u : s;
        if (!contains(stretch_, changed) || !contains(value(u).uses, s)) continue;
        if (!is_real(s) || theirs_.is_argument(s) || !(shape(u) == shape(s))) continue;
        for (int r : value(s).uses)
          if (is_real(r) && shape(r) == shape(s) &&
              fits_computed(changed, [=](Evaluation& run) { return swapped(run, r, s, u); }))
            return found(changed, text("as if ", name(u), "'s step came before ", name(s), "'s"));
      }
    return false;
  }
  static Tensor swapped(Evaluation& run, int r, int s, int u) {
    const Tensor before = run.value(r), between = run.value(s);
    run.set(s, before);
    const Tensor early = run.anew(u);
    run.set(r, early);
    const Tensor late = run.anew(s);
    run.set(r, before), run.set(s, between);
    return late;
  }

  // ---- What it is made from ---------------------------------------------------------------------

  bool in_an_operand() {
    std::vector<int> all;
    for (const std::vector<int>* list : {&operands_, &stretch_})
      for (int v : *list)
        if (v != target_ && is_real(v)) all.push_back(v);
    const auto any = [&](auto begin, auto end, bool (Guesser::*is)(int)) {
      return std::any_of(begin, end, [&](int v) { return (this->*is)(v); });
    };
    // Dimensions are confused where they meet, so early; the rest is sought where it shows, late.
    return any(all.rbegin(), all.rend(), &Guesser::is_replaced) ||
           any(all.begin(), all.end(), &Guesser::is_confused) ||
           any(all.rbegin(), all.rend(), &Guesser::misses_a_slice) ||
           any(all.rbegin(), all.rend(), &Guesser::is_scaled_before);
  }

  bool is_replaced(int v) {
    for (int w = 0; w < count(); ++w) {
      if (w == v || w == target_ || !is_real(w) || !(shape(w) == shape(v))) continue;
      if (fits_seen(v, [w](const Tensor&, Evaluation& run) { return run.value(w); }))
        return found(statement_of(v), text("as if ", name(w), " stood in the place of ", name(v)));
    }
    return false;
  }

  // Only where something that is not linear uses it; elsewhere the result itself is scaled.
  bool is_scaled_before(int v) {
    const bool bends = std::any_of(stretch_.begin(), stretch_.end(), [&](int s) {
      const Node& right = value(s).right;
      return contains(value(s).uses, v) && !calls(right, "einsum");
    });
    if (!bends) return false;
    for (const Factor& f : factors())
      for (double sign : {1.0, -1.0})
        if (fits_seen(v, [&](const Tensor& x, Evaluation&) { return x * (sign * f.value); }))
          return found(statement_of(v), text("as if ", name(v), " were multiplied by ",
                                             sign < 0 ? "-" : "", f.name));
    return false;
  }

  // ---- Gradients --------------------------------------------------------------------------------

  bool is_detached() {
    if (!suspect_.gradient) return false;
    for (int u : stretch_) {
      if (!contains(value(u).uses, target_)) continue;
      const int v = target_;
      if (fits_computed(u, [=](Evaluation& run) {
            const Tensor x = run.value(v);
            run.set(v, x.detach());
            const Tensor y = run.anew(u);
            run.set(v, x);
            return y;
          }))
        return found(u, text("no gradient comes by way of ", name(u), ", as if ", name(v),
                             " were detached there"));
      if (is_softmax(u) && shape(u) == shape(v) &&
          fits_computed(u, [=](Evaluation& run) { return run.anew(u).detach() * run.value(v); }))
        return found(u, "the sum over the reduced dimension is missing from softmax's gradient");
    }
    return false;
  }
  bool is_softmax(int u) const { return calls(value(u).right, "softmax"); }

  // ---- Where, at least --------------------------------------------------------------------------

  // Every entry that differs has one index of one axis, or is hidden by the mask.
  bool is_somewhere() {
    const std::vector<double> x = suspect_.theirs.values(), y = suspect_.text.values();
    std::vector<Index> apart;
    for (size_t i = 0; i < x.size(); ++i)
      if ((suspect_.ignored.empty() || !suspect_.ignored[i]) &&
          !(std::abs(x[i] - y[i]) <= suspect_.tolerance))
        apart.push_back(static_cast<Index>(i));
    if (apart.empty()) return false;
    const NamedAxes named = axes_of(target_);
    const Shape& of = suspect_.text.shape();
    const Strides strides = row_major(of);
    for (int axis = 0; axis < of.size(); ++axis) {
      const auto index = [&](Index i) { return i / strides[axis] % of[axis]; };
      const Index at = index(apart[0]);
      if (of[axis] > 1 &&
          std::all_of(apart.begin(), apart.end(), [&](Index i) { return index(i) == at; }))
        return found(target_, text("it differs only where ", named.axes[static_cast<size_t>(axis)],
                                   "=", at));
    }
    return is_hidden(apart) || is_blind(apart);
  }
  bool is_hidden(const std::vector<Index>& apart) {
    const Names& dims = value(target_).dims;
    const Names pair = masked_pair(program_);
    if (pair.size() != 2 || !dims.contains(pair[0]) || !dims.contains(pair[1]) ||
        theirs_.options.mask.hides_nothing())
      return false;
    const std::vector<double> seen =
        hidden_as(Tensor::ones(suspect_.text.shape(), Dtype::f64), dims, probe_, 0).values();
    if (std::any_of(apart.begin(), apart.end(),
                    [&](Index i) { return seen[static_cast<size_t>(i)] != 0; }))
      return false;
    return found(target_, "it differs only where the mask hides");
  }

  // A query that sees no memory: 0/0 where the text gives zeros.
  bool is_blind(const std::vector<Index>& apart) {
    const Names pair = masked_pair(program_);
    if (pair.size() != 2) return false;
    const Names& dims = value(target_).dims;
    const int axis = dims.find(pair[0]) + suspect_.text.rank() - dims.size();
    const Tensor seen = run_sees(pair);
    if (!dims.contains(pair[0]) || (seen.rank() > 1 && suspect_.text.rank() == dims.size()))
      return false;
    const std::vector<double> sees = seen.values();
    const Shape& of = suspect_.text.shape();
    const Index n = of[axis], stride = row_major(of)[axis];
    const Index samples = seen.rank() > 1 ? seen.size() / n : 1,
                block = suspect_.text.size() / samples;
    if (std::any_of(apart.begin(), apart.end(), [&](Index i) {
          return sees[static_cast<size_t>(i / block * n + i / stride % n)] != 0;
        }))
      return false;
    return found(target_,
                 "it differs only for queries that see nothing, to which the text gives 0");
  }
  // Whether a query sees any memory, [batch…, n] or [n].
  Tensor run_sees(const Names& pair) {
    const Tensor visible = probe_.visible(pair);
    return max(visible, Axes{visible.rank() - 1});
  }

  bool is_rounding() {
    double apart = 0;
    const std::vector<double> x = suspect_.theirs.values(), y = suspect_.text.values();
    for (size_t i = 0; i < x.size(); ++i)
      if (suspect_.ignored.empty() || !suspect_.ignored[i])
        apart = std::max(apart, std::abs(x[i] - y[i]));
    for (const auto& [unit, what] : {std::pair{0x1p-11, "float16 or TF32"}, {0x1p-8, "bfloat16"}}) {
      if (suspect_.unit >= unit || !(apart <= suspect_.tolerance * unit / suspect_.unit)) continue;
      char digits[32];
      std::snprintf(digits, sizeof digits, "%.1g", 1.5 * apart / suspect_.largest);
      return found(target_, text("the difference is of the size of rounding to ", what,
                                 "; if it was computed so, a tolerance of ", digits, " allows it"));
    }
    return false;
  }

  const Theirs& theirs_;
  const Checked& program_;
  const Suspect& suspect_;
  int target_;
  Evaluation probe_;
  std::vector<Shape> shapes_;  // of every value
  std::vector<int> stretch_;   // statements in which the mistake may be
  std::vector<int> operands_;  // what these are made from
  Guess found_;
};

}  // namespace

bool explains(const Suspect& suspect, const Tensor& text) {
  if (!(text.shape() == suspect.theirs.shape())) return false;
  const std::vector<double> x = suspect.theirs.values(), y = text.values();
  for (size_t i = 0; i < x.size(); ++i) {
    if (!suspect.ignored.empty() && suspect.ignored[i]) continue;
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    const double grown = suspect.largest > 0 ? std::max(1.0, std::abs(y[i]) / suspect.largest) : 1;
    if (!(std::abs(x[i] - y[i]) <= suspect.tolerance * grown) || !std::isfinite(y[i])) return false;
  }
  return true;
}

Guess guess_at(const Theirs& theirs, const Suspect& suspect) {
  return Guesser(theirs, suspect).guess();
}

}  // namespace tete
