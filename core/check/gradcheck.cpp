// Gradient checks compare gradients with differences of Σ f · c, where f's elements are weighted by
// a random cotangent c or taken one at a time.
#include "core/check/gradcheck.hpp"

#include <cmath>

#include "core/check/faults.hpp"
#include "core/check/on_device.hpp"
#include "core/ops.hpp"
#include "core/threads.hpp"

namespace tete {

namespace {

// The inputs, with those that can be differentiated as leaves of a new graph.
Tensors variables(const Tensors& inputs) {
  Tensors all;
  for (const Tensor& in : inputs) all.push_back(is_checked(in) ? in.detach().variable() : in);
  return all;
}

Tensor random_like(const Tensor& x, Key key) { return random_normal(x.shape(), key, Dtype::f64); }

// Gradients of s = Σ f c for every input that is checked; empty if none arrived.
Tensors gradients_of(const Tensor& y, const Tensors& inputs, const Tensor& cotangent,
                     bool keep_graph) {
  Tensors asked;
  for (const Tensor& in : inputs)
    if (is_checked(in)) asked.push_back(in);
  if (!y.tracked()) return Tensors(asked.size());
  return grad(y, asked, {.cotangent = cotangent, .keep_graph = keep_graph});
}

std::vector<Index> coordinates(size_t entry, const Shape& shape) {
  std::vector<Index> at(static_cast<size_t>(shape.size()));
  Index rest = static_cast<Index>(entry);
  for (int i = shape.size() - 1; i >= 0; --i)
    at[static_cast<size_t>(i)] = rest % shape[i], rest /= shape[i];
  return at;
}

// Gradients of one function at one point, and its differences.
struct Slopes {
  const Tensors& inputs;
  const GradCheckOptions& options;
  int order;
  Key key;
  double tolerance;
  Differences differences;
  Numbers cotangent;
  Tensors gradients;               // one for each input that is checked
  std::vector<Tensors> rows = {};  // … for each element of the result; none if there are too many
};

// The rows of the Jacobian: for each element of the result, the gradients of all inputs. Those of
// inputs that are compared by entries are not kept.
std::vector<Tensors> jacobian_of(const Tensor& y, const Tensors& leaves, Index full) {
  std::vector<Tensors> rows;
  const size_t count = static_cast<size_t>(y.size());
  for (size_t j = 0; j < count; ++j) {
    rows.push_back(gradients_of(y, leaves, Tensor::of<double>(y.shape(), one_of(count, j)), false));
    for (Tensor& gradient : rows.back())
      if (gradient && gradient.size() > full) gradient = {};
  }
  return rows;
}

Slopes slopes_of(const Function& f, const Tensors& inputs, const GradCheckOptions& options,
                 int order) {
  const Tensors leaves = variables(inputs);
  const Tensor y = f(leaves);
  if (!y || y.dtype() != Dtype::f64)
    bad_input("check_gradient: the function returned ",
              y ? describe(y.dtype(), y.shape()) : "no tensor", ", expected f64");
  const Key key = options.key.fold(order);
  const Tensor cotangent = random_like(y, key.fold("cotangent"));
  Slopes slopes{.inputs = inputs,
                .options = options,
                .order = order,
                .key = key,
                .tolerance = options.tolerance * std::pow(10, order - 1),
                .differences = {f, inputs, options.step},
                .cotangent = cotangent.values<double>(),
                .gradients = gradients_of(y, leaves, cotangent, false)};
  if (order == 1 && y.size() <= options.full) slopes.rows = jacobian_of(y, leaves, options.full);
  return slopes;
}

// A claim: the slope of Σ f · weights as one input moves along `way`.
struct Claim {
  Slope slope = {};
  Numbers way, weights;
  double size = 1;  // the error is relative to this
};

// All entries if there are few. Otherwise three of four samples are entries whose gradient is not
// zero, as the zeros of a sparse gradient show little.
std::vector<Index> sampled(const Numbers& analytic, int entries, Key key) {
  const size_t wanted = static_cast<size_t>(std::max(0, entries));
  std::vector<Index> shuffled(analytic.size());
  for (size_t i = 0; i < shuffled.size(); ++i) {  // the inside-out shuffle
    const size_t j = uniform_below(key, i, i + 1);
    shuffled[i] = shuffled[j];
    shuffled[j] = static_cast<Index>(i);
  }
  if (shuffled.size() <= wanted) return shuffled;
  std::stable_partition(shuffled.begin(), shuffled.end(),
                        [&](Index i) { return analytic[static_cast<size_t>(i)] != 0; });
  const size_t some = wanted - wanted / 4;
  std::vector<Index> chosen(shuffled.begin(), shuffled.begin() + static_cast<Index>(some));
  chosen.insert(chosen.end(), shuffled.end() - static_cast<Index>(wanted - some), shuffled.end());
  return chosen;
}

// Compares the gradient of one input with differences.
class Comparison {
 public:
  // `place` is the input's among those that are checked.
  Comparison(const Slopes& slopes, size_t input, size_t place)
      : slopes_(slopes), input_(input), place_(place), key_(slopes.key.fold("input").fold(input)) {
    const GradCheckOptions& options = slopes.options;
    const Tensor &x = slopes.inputs[input], &gradient = slopes.gradients[place];
    report_.input = input < options.names.size() ? options.names[input] : text("input ", input + 1);
    report_.order = slopes.order;
    report_.shape = x.shape();
    if (input < options.dims.size()) report_.dims = options.dims[input];
    report_.result_dims = options.result_dims;
    report_.severed = !gradient;
    if (gradient && !(gradient.shape() == x.shape()))
      bad_input("check_gradient: the gradient of ", report_.input, " has shape ", gradient.shape(),
                ", the input ", x.shape());
    const size_t count = static_cast<size_t>(x.size());
    analytic_ = gradient ? gradient.values<double>() : Numbers(count, 0.0);
  }

  InputReport report() {
    compare_directions();
    const bool full = static_cast<Index>(analytic_.size()) <= slopes_.options.full;
    if (!slopes_.rows.empty() && full) compare_jacobian();
    else compare_entries();
    judge();
    return std::move(report_);
  }

 private:
  void compare_directions() {
    for (uint64_t trial = 0; trial < 2 && !analytic_.empty(); ++trial) {
      const Index count = static_cast<Index>(analytic_.size());
      const Tensor way = random_normal({count}, key_.fold("way").fold(trial), Dtype::f64);
      Claim claim{.way = way.values<double>(), .weights = slopes_.cotangent};
      claim.slope.analytic = dot(analytic_, claim.way);
      const Numbers column = slopes_.differences.slopes(input_, claim.way);
      const Slope slope = compare(std::move(claim), column);
      if (trial == 0) report_.along = slope;
    }
  }

  void compare_entries() {
    for (Index at : sampled(analytic_, slopes_.options.entries, key_.fold("entries"))) {
      const size_t entry = static_cast<size_t>(at);
      Claim claim{.way = one_of(analytic_.size(), entry), .weights = slopes_.cotangent};
      claim.slope = slope_of_entry(entry, analytic_[entry]);
      const Numbers column = slopes_.differences.slopes(input_, claim.way);
      compare(std::move(claim), column);
    }
  }

  // Every entry of the input against every element of the result. A difference gives a column.
  void compare_jacobian() {
    const size_t count = analytic_.size();
    std::vector<Numbers> rows;
    for (const Tensors& row : slopes_.rows)
      rows.push_back(row[place_] ? row[place_].values<double>() : Numbers(count, 0.0));
    for (size_t entry = 0; entry < count; ++entry) {
      const Numbers way = one_of(count, entry), column = slopes_.differences.slopes(input_, way);
      for (size_t j = 0; j < rows.size(); ++j) {
        Claim claim{.way = way, .weights = one_of(rows.size(), j)};
        claim.slope = slope_of_entry(entry, rows[j][entry]);
        claim.slope.result = coordinates(j, slopes_.differences.shape());
        compare(std::move(claim), column);
      }
    }
  }

  Slope slope_of_entry(size_t entry, double analytic) const {
    return {.analytic = analytic, .of_entry = true, .entry = coordinates(entry, report_.shape)};
  }

  Slope compare(Claim claim, const Numbers& column) {
    Slope& slope = claim.slope;
    slope.numeric = dot(column, claim.weights);
    claim.size = slopes_.differences.scale(claim.weights);
    slope.error =
        std::fabs(slope.analytic - slope.numeric) / std::max(std::fabs(slope.numeric), claim.size);
    if (std::isnan(slope.error)) slope.error = std::numeric_limits<double>::infinity();
    ++report_.compared;
    moves_ = moves_ || slope.numeric != 0;
    const Slope compared = slope;
    if (slope.error > slopes_.tolerance) failed_.push_back(std::move(claim));
    else keep_worst(compared);
    return compared;
  }

  // An entry says more than a direction.
  void keep_worst(const Slope& slope) {
    report_.error = std::max(report_.error, slope.error);
    if (std::pair(slope.of_entry, slope.error) >=
        std::pair(report_.worst.of_entry, report_.worst.error))
      report_.worst = slope;
  }

  // Looks at failed claims, entries first and the largest error first. One at a kink, or right with
  // a smaller step, is set aside; the first other one gives the verdict.
  void judge() {
    std::stable_sort(failed_.begin(), failed_.end(), [](const Claim& a, const Claim& b) {
      return std::pair(a.slope.of_entry, a.slope.error) >
             std::pair(b.slope.of_entry, b.slope.error);
    });
    // A linear function rightly has no second derivative.
    if (failed_.empty() && report_.order > 1) report_.severed = false;
    if (report_.severed) report_.verdict = moves_ ? Verdict::severed : Verdict::unreached;
    for (Claim& claim : failed_) {
      ErrorCurve curve = curve_of(claim);
      const Verdict verdict = curve.verdict;
      if (verdict == Verdict::right) {
        claim.slope.numeric = curve.numeric, claim.slope.error = curve.error;
        keep_worst(claim.slope);
        continue;
      }
      if (verdict == Verdict::kink && ++report_.kinks > 1) continue;
      report_.worst = claim.slope;
      report_.curve = std::move(curve);
      report_.verdict = verdict;
      if (verdict == Verdict::kink) continue;
      if (report_.severed && verdict != Verdict::not_finite) report_.verdict = Verdict::severed;
      report_.error = claim.slope.error;
      return;
    }
  }

  ErrorCurve curve_of(const Claim& claim) const {
    const auto rise = [&](double from, double to) {
      return slopes_.differences.rise(input_, claim.way, claim.weights, from, to);
    };
    return trace(rise, {.analytic = claim.slope.analytic,
                        .size = claim.size,
                        .step = slopes_.options.step,
                        .tolerance = slopes_.tolerance,
                        .rounding = slopes_.differences.rounding(claim.weights),
                        .one_kink = claim.slope.of_entry});
  }

  const Slopes& slopes_;
  size_t input_, place_;
  Key key_;
  Numbers analytic_;
  InputReport report_;
  std::vector<Claim> failed_;
  bool moves_ = false;  // true: the result moves with the input
};

// x ↦ Σ_i ∇_i(f · c)(x) · u_i, with a random direction u: a function whose own gradient is a second
// derivative of f. With plain inputs it uses the gradient's kernels, with tracked ones their
// meaning; so the check compares the two with each other.
Function gradient_of(const Function& f, Key key) {
  return [f, key](const Tensors& inputs) {
    bool tracked = false;
    for (const Tensor& in : inputs) tracked |= in && in.tracked();
    const Tensors leaves = tracked ? inputs : variables(inputs);
    const Tensor y = f(leaves);
    const Tensors found = gradients_of(y, leaves, random_like(y, key.fold("cotangent")), tracked);
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

bool GradReport::passed() const {
  return std::none_of(inputs.begin(), inputs.end(),
                      [](const InputReport& report) { return is_fault(report.verdict); });
}

GradReport check_gradient(const WatchedFunction& f, const Tensors& inputs,
                          const GradCheckOptions& options) {
  for (const Tensor& in : inputs)
    if (is_checked(in) && in.dtype() != Dtype::f64)
      bad_input("check_gradient: expected f64 inputs, got ", describe(in.dtype(), in.shape()));
  if (options.device) return check_on_device(f, inputs, options);
  const ExactDenormals exact;
  GradReport report;
  Function function = [&f](const Tensors& in) { return f(in, {}); };
  for (int order = 1; order <= options.order; ++order) {
    if (order > 1) function = gradient_of(function, options.key.fold("gradient").fold(order));
    const Slopes slopes = slopes_of(function, inputs, options, order);
    size_t place = 0;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (is_checked(inputs[i])) report.inputs.push_back(Comparison(slopes, i, place++).report());
  }
  if (options.explain && !report.passed()) report.fault = find_fault(f, inputs, options, report);
  if (report.fault && report.fault->kind == FaultKind::kink)
    for (InputReport& each : report.inputs)
      if (each.verdict == Verdict::wrong)
        each.verdict = Verdict::kink, each.error = 0, ++each.kinks;
  for (const InputReport& each : report.inputs) report.worst = std::max(report.worst, each.error);
  return report;
}

GradReport check_gradient(const Function& f, const Tensors& inputs,
                          const GradCheckOptions& options) {
  return check_gradient([&f](const Tensors& in, const Watch&) { return f(in); }, inputs, options);
}

GradReport check_gradient(const Function& f, const Tensors& inputs, int order) {
  return check_gradient(f, inputs, GradCheckOptions{.order = order});
}

}  // namespace tete
