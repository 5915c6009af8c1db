#include "nn/against/candidate.hpp"

#include <algorithm>
#include <cmath>

#include "nn/against/masks.hpp"
#include "nn/against/precision.hpp"

namespace tete {

namespace {

constexpr std::string_view gradient_of = "grad:";

Tensor in_double(const Tensor& x) { return is_real(x.dtype()) ? cast(x, Dtype::f64) : x; }

// "[batch, n, m, h]", or in another order.
std::string axes_name(const Checked& program, int value, int rank, const Axes& order) {
  std::string all;
  for (int axis = 0; axis < rank; ++axis)
    all += (axis > 0 ? ", " : "") +
           axis_name(program, value, rank, order.empty() ? axis : order[axis]);
  return "[" + all + "]";
}

// The order of x's axes that gives it this shape, if there is exactly one: no two sizes are equal.
Axes only_order(const Tensor& x, const Shape& shape) {
  Axes order;
  for (Index size : shape) {
    int found = -1;
    for (int i = 0; i < x.rank(); ++i) {
      if (x.size(i) != size) continue;
      if (found >= 0) return {};
      found = i;
    }
    if (found < 0 || order.contains(found)) return {};
    order.push_back(found);
  }
  return order;
}

// Checks the shape against `like`'s. Permutes axes that are in another order if only one order
// fits.
bool fit(const Checked& program, Compared& c, const Tensor& like) {
  if (!is_real(c.theirs.dtype())) c.theirs = cast(c.theirs, Dtype::f64);
  const Tensor& x = c.theirs;
  if (x.shape() == like.shape()) return true;
  c.shape = text("has shape ", x.shape(), ", expected ", like.shape(), " = ",
                 axes_name(program, c.value, like.rank(), {}));
  const Axes order = x.rank() == like.rank() ? only_order(x, like.shape()) : Axes();
  if (order.empty()) return false;
  Axes names(x.rank(), 0);
  for (int i = 0; i < x.rank(); ++i) names[order[i]] = i;
  c.shape += text("; it looks like ", axes_name(program, c.value, like.rank(), names));
  c.theirs = permute(x, order);
  return true;
}

class CandidateReader {
 public:
  CandidateReader(std::shared_ptr<const Checked> program, const TensorsByName& tensors,
                  const AgainstOptions& options)
      : tensors_(tensors), stored_bits_(options.stored_bits) {
    candidate_.program = std::move(program);
    candidate_.options.sizes = options.sizes;
    candidate_.options.mask = options.mask;
  }

  Recorded read() {
    read_arguments();
    read_values();
    read_gradients();
    if (recorded_.compared.empty())
      bad_input("there is nothing to compare: of what '", program().name,
                "' computes, none was given; expected any of ", names_of_statements());
    return std::move(recorded_);
  }

 private:
  const Checked& program() const { return *candidate_.program; }
  bool is_given(const std::string& name) const { return tensors_.contains(name); }
  int shown(const std::string& name) const {
    const auto stored = stored_bits_.find(name);
    return bits_shown(tensors_.at(name), stored == stored_bits_.end() ? 0 : stored->second);
  }
  std::string gradient_name(int i) const { return std::string(gradient_of) + candidate_.name(i); }

  void read_arguments() {
    for (int i = 0; i < candidate_.count(); ++i) {
      const std::string& name = candidate_.name(i);
      const bool fresh = numbers_.try_emplace(name, i).second;
      if (!fresh || !candidate_.is_argument(i) || !is_given(name)) continue;
      candidate_.arguments[name] = in_double(tensors_.at(name));
      refuse_nan(name, i, candidate_.arguments[name]);
    }
    for (const auto& [name, x] : tensors_) {
      const std::string of = name.starts_with(gradient_of) ? name.substr(gradient_of.size()) : name;
      if (!numbers_.contains(of)) recorded_.unknown.push_back(name);
    }
  }

  // Values computed from a NaN are NaN, so a comparison would say nothing.
  void refuse_nan(const std::string& name, int value, const Tensor& x) const {
    if (!is_real(x.dtype())) return;
    const std::vector<double> all = x.values();
    const auto nan = std::find_if(all.begin(), all.end(), [](double n) { return std::isnan(n); });
    if (nan == all.end()) return;
    const std::string entry = entry_name(program(), value, x.shape(), nan - all.begin());
    bad_input("'", name, "' is NaN at ", entry.substr(entry.find('[')),
              ": expected numbers, as all is computed from it");
  }

  void read_values() {
    Evaluation ours(candidate_.program, candidate_.arguments, candidate_.options);
    for (int i = 0; i < candidate_.count(); ++i) shapes_.push_back(ours.value(i).shape());
    for (int i = 0; i < candidate_.count(); ++i) {
      const std::string& name = candidate_.name(i);
      if (candidate_.is_argument(i) || !is_given(name) || numbers_.at(name) != i) continue;
      Compared c{.value = i, .theirs = in_double(tensors_.at(name))};
      if (fit(program(), c, ours.value(i))) {
        c.ignored = masked_already(candidate_, i, c.theirs, ours);
        candidate_.values[i] = c.theirs;
        if (candidate_.value(i).element == Element::real) c.bits = shown(name);
      }
      recorded_.compared.push_back(std::move(c));
    }
    recorded_.candidate = candidate_;
  }

  void read_gradients() {
    for (int i : given_gradients()) {
      Compared c{.value = i, .gradient = true, .theirs = in_double(tensors_.at(gradient_name(i)))};
      const bool is_cotangent = i == program().result;
      const Tensor like = candidate_.is_argument(i) ? candidate_.arguments.at(candidate_.name(i))
                                                    : Tensor::zeros(shapes_[i]);
      if (candidate_.value(i).element != Element::real)
        bad_input("'", gradient_name(i), "': whole numbers and truth values have no gradient");
      if (fit(program(), c, like)) {
        candidate_.gradients[i] = c.theirs;
        c.bits = shown(gradient_name(i));
      } else if (is_cotangent) {
        bad_input("the cotangent '", gradient_name(i), "' ", c.shape);
      }
      if (is_cotangent) refuse_nan(gradient_name(i), i, c.theirs);
      else recorded_.compared.push_back(std::move(c));
    }
    recorded_.candidate = candidate_;
  }

  // The values whose gradients were given, in backward's order: a gradient is complete when
  // backward has passed the value's first use.
  std::vector<int> given_gradients() const {
    std::vector<int> of;
    for (int i = 0; i < candidate_.count(); ++i)
      if (numbers_.at(candidate_.name(i)) == i && is_given(gradient_name(i))) of.push_back(i);
    const int result = program().result;
    if (!of.empty() && !std::count(of.begin(), of.end(), result))
      bad_input("there are gradients, but not the cotangent '", gradient_name(result),
                "' that they come from; after ", candidate_.name(result),
                ".sum().backward() it is all ones");
    std::stable_sort(of.begin(), of.end(),
                     [&](int a, int b) { return first_use(a) > first_use(b); });
    return of;
  }
  int first_use(int i) const {
    for (int s = i + 1; s < candidate_.count(); ++s) {
      const std::vector<int>& uses = candidate_.value(s).uses;
      if (std::count(uses.begin(), uses.end(), i) > 0) return s;
    }
    return candidate_.count();
  }

  std::string names_of_statements() const {
    std::string all;
    for (int i = 0; i < candidate_.count(); ++i) {
      const CheckedValue& v = candidate_.value(i);
      if (v.kind == CheckedValue::Kind::statement && v.watched)
        all += (all.empty() ? "" : ", ") + candidate_.name(i);
    }
    return all;
  }

  const TensorsByName& tensors_;
  const std::map<std::string, int>& stored_bits_;
  Candidate candidate_;
  std::map<std::string, int> numbers_;  // of values, by the names that callers use
  std::vector<Shape> shapes_;           // of every value
  Recorded recorded_;
};

}  // namespace

int Candidate::renamed_argument(int number) const {
  while (value(number).kind == CheckedValue::Kind::same) number = value(number).index;
  return is_argument(number) ? number : -1;
}

Recorded read_candidate(std::shared_ptr<const Checked> program, const TensorsByName& tensors,
                        const AgainstOptions& options) {
  return CandidateReader(std::move(program), tensors, options).read();
}

Distance distance(const std::vector<double>& x, const std::vector<double>& y,
                  const std::vector<bool>& left_out) {
  Distance found;
  double squares = 0, count = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!left_out.empty() && left_out[i]) continue;
    ++count;
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    const double difference = std::abs(x[i] - y[i]);
    const double apart = std::isfinite(difference) ? difference : INFINITY;
    if (apart > found.farthest) found.farthest = apart, found.at = i;
    squares += apart * apart;
  }
  if (count > 0) found.rms = std::sqrt(squares / count);
  return found;
}

double largest_of(const std::vector<double>& numbers) {
  double most = 0;
  for (double x : numbers)
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  return most;
}

}  // namespace tete
