// Gradient checks against central differences, Richardson-extrapolated:
//   D(h) = (s(x + h u) - s(x - h u)) / 2h,   (4 D(h/2) - D(h)) / 3,   wrong by O(h⁴).
// s is the sum of f's elements weighted by a random cotangent. What remains is rounding, about
// ε Σ|f c| / h, so the size of the terms, not only of the result, sets what an error is relative
// to.
#include "core/gradcheck.hpp"

#include <cmath>

#include "core/ops.hpp"
#include "core/threads.hpp"

namespace tete {

namespace {

using Function = std::function<Tensor(const Tensors&)>;
using Numbers = std::vector<double>;

bool is_checked(const Tensor& input) { return input && is_real(input.dtype()); }

// All inputs as they are, but those that can be differentiated as leaves of a new graph.
Tensors variables(const Tensors& inputs) {
  Tensors all;
  for (const Tensor& in : inputs) all.push_back(is_checked(in) ? in.detach().variable() : in);
  return all;
}

Numbers random_numbers(Index count, Key key) {
  return random_normal({count}, key, Dtype::f64).values<double>();
}

Tensor random_like(const Tensor& x, Key key) { return random_normal(x.shape(), key, Dtype::f64); }

// Gradients of s = Σ f c for every input that is checked; empty where none arrived.
Tensors gradients(const Tensor& y, const Tensors& inputs, const Tensor& cotangent,
                  bool keep_graph) {
  Tensors asked;
  for (const Tensor& in : inputs)
    if (is_checked(in)) asked.push_back(in);
  if (!y.tracked()) return Tensors(asked.size());
  return grad(y, asked, {.cotangent = cotangent, .keep_graph = keep_graph});
}

// One function at one point: what its inputs' gradients are said to be, and what they are.
class Comparison {
 public:
  Comparison(const Function& f, const Tensors& inputs, const GradCheckOptions& options, int order)
      : f_(f), inputs_(inputs), options_(options), key_(options.key.fold(order)), order_(order) {
    const Tensors leaves = variables(inputs);
    const Tensor y = f(leaves);
    if (y.dtype() != Dtype::f64)
      bad_input("check_gradient: the function returned ", describe(y.dtype(), y.shape()),
                ", expected f64");
    const Tensor cotangent = random_like(y, key_.fold("cotangent"));
    cotangent_ = cotangent.values<double>();
    const Numbers values = y.values<double>();
    double terms = 0;
    for (size_t i = 0; i < values.size(); ++i) terms += std::abs(values[i] * cotangent_[i]);
    // Of this, rounding is one part in ten million.
    scale_ = std::max(1.0, 1e7 * terms * epsilon(Dtype::f64) / options.step);
    gradients_ = gradients(y, leaves, cotangent, false);
  }

  std::vector<InputReport> reports() {
    std::vector<InputReport> all;
    size_t place = 0;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (is_checked(inputs_[i])) all.push_back(report_on(i, gradients_[place++]));
    return all;
  }

 private:
  InputReport report_on(size_t input, const Tensor& gradient) {
    const Tensor& x = inputs_[input];
    const Key key = key_.fold("input").fold(input);
    InputReport report;
    report.input =
        input < options_.names.size() ? options_.names[input] : text("input ", input + 1);
    report.order = order_;
    Numbers analytic(x.size(), 0.0);
    if (gradient && !(gradient.shape() == x.shape()))
      bad_input("check_gradient: the gradient of ", report.input, " has shape ", gradient.shape(),
                ", the input ", x.shape());
    if (gradient) analytic = gradient.values<double>();
    if (x.size() == 0) return report;
    for (int trial = 0; trial < 2; ++trial)
      compare(report, input, analytic, random_numbers(x.size(), key.fold("way").fold(trial)), {});
    for (Index entry : sampled(analytic, key.fold("entries"))) {
      Numbers way(x.size(), 0.0);
      way[entry] = 1;
      compare(report, input, analytic, way, coordinates(entry, x.shape()));
    }
    // An operation that is linear has no second derivative, and rightly so.
    report.severed = !gradient && (order_ == 1 || report.error > 1e-6);
    return report;
  }

  void compare(InputReport& worst, size_t input, const Numbers& analytic, const Numbers& way,
               std::vector<Index> entry) {
    double expected = 0;
    for (size_t i = 0; i < way.size(); ++i)
      if (way[i] != 0) expected += analytic[i] * way[i];
    const double numeric = slope(input, way);
    const double size = std::max(std::abs(numeric), scale_);
    double error = std::abs(expected - numeric) / size;
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error < worst.error) return;
    worst.error = error;
    worst.analytic = expected;
    worst.numeric = numeric;
    worst.entry = std::move(entry);
  }

  double slope(size_t input, const Numbers& way) {
    const double h = options_.step;
    return (4 * difference(input, way, h / 2) - difference(input, way, h)) / 3;
  }

  double difference(size_t input, const Numbers& way, double h) {
    const Numbers above = at(input, way, h), below = at(input, way, -h);
    double total = 0;
    for (size_t i = 0; i < above.size(); ++i) total += (above[i] - below[i]) * cotangent_[i];
    return total / (2 * h);
  }

  Numbers at(size_t input, const Numbers& way, double h) {
    Numbers moved = inputs_[input].values<double>();
    for (size_t i = 0; i < way.size(); ++i) moved[i] += h * way[i];
    Tensors inputs;
    for (const Tensor& in : inputs_) inputs.push_back(in ? in.detach() : in);
    inputs[input] = Tensor::of<double>(inputs[input].shape(), moved);
    return f_(inputs).values<double>();
  }

  // All entries where there are few. Otherwise three of four where the gradient is not zero: in a
  // sparse gradient nothing is learned from the rest.
  std::vector<Index> sampled(const Numbers& analytic, Key key) const {
    const size_t wanted = static_cast<size_t>(std::max(0, options_.entries));
    std::vector<Index> shuffled(analytic.size());
    for (size_t i = 0; i < shuffled.size(); ++i) {  // Fisher and Yates, from the inside
      const size_t j = uniform_below(key, i, i + 1);
      shuffled[i] = shuffled[j];
      shuffled[j] = static_cast<Index>(i);
    }
    if (shuffled.size() <= wanted) return shuffled;
    std::stable_partition(shuffled.begin(), shuffled.end(),
                          [&](Index i) { return analytic[i] != 0; });
    const size_t some = wanted - wanted / 4;
    std::vector<Index> chosen(shuffled.begin(), shuffled.begin() + some);
    chosen.insert(chosen.end(), shuffled.end() - (wanted - some), shuffled.end());
    return chosen;
  }

  static std::vector<Index> coordinates(Index entry, const Shape& shape) {
    std::vector<Index> at(shape.size());
    for (int i = shape.size() - 1; i >= 0; --i) at[i] = entry % shape[i], entry /= shape[i];
    return at;
  }

  const Function& f_;
  const Tensors& inputs_;
  const GradCheckOptions& options_;
  Key key_;
  int order_;
  Numbers cotangent_;
  double scale_ = 1;
  Tensors gradients_;
};

// x ↦ Σ_i ∇_i(f · c)(x) · u_i, with a random direction u: a function whose own gradient is a second
// derivative of f. Called with plain inputs it uses the gradient's kernels, with tracked ones what
// they mean; so the check holds the two to each other.
Function gradient_of(const Function& f, Key key) {
  return [&f, key](const Tensors& inputs) {
    bool tracked = false;
    for (const Tensor& in : inputs) tracked |= in && in.tracked();
    const Tensors leaves = tracked ? inputs : variables(inputs);
    const Tensor y = f(leaves);
    const Tensors found = gradients(y, leaves, random_like(y, key.fold("cotangent")), tracked);
    Tensor total = Tensor::scalar(0, Dtype::f64);
    for (size_t i = 0; i < found.size(); ++i)
      if (found[i]) total = total + sum(found[i] * random_like(found[i], key.fold(i)));
    return total;
  };
}

}  // namespace

double GradReport::worst_of_order(int order) const {
  double largest = 0;
  for (const InputReport& report : inputs)
    if (report.order == order) largest = std::max(largest, report.error);
  return largest;
}

GradReport check_gradient(const Function& f, const Tensors& inputs,
                          const GradCheckOptions& options) {
  for (const Tensor& in : inputs)
    if (is_checked(in) && in.dtype() != Dtype::f64)
      bad_input("check_gradient: expected f64 inputs, got ", describe(in.dtype(), in.shape()));
  const ExactDenormals exact;
  GradReport report;
  Function function = f;
  report.inputs = Comparison(function, inputs, options, 1).reports();
  if (options.order >= 2) {
    const Function second = gradient_of(function, options.key.fold("gradient"));
    for (InputReport& each : Comparison(second, inputs, options, 2).reports())
      report.inputs.push_back(std::move(each));
  }
  for (const InputReport& each : report.inputs) report.worst = std::max(report.worst, each.error);
  return report;
}

}  // namespace tete
