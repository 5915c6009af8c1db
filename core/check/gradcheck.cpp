// Gradient checks compare gradients with differences of Σ f · c, where f's elements are weighted by
// a random cotangent c or taken one at a time.
#include "core/check/gradcheck.hpp"

#include <cmath>

#include "core/check/faults.hpp"
#include "core/ops.hpp"
#include "core/threads.hpp"

namespace tete {

namespace {

bool is_checked(const Tensor& input) { return input && is_real(input.dtype()); }

// The inputs, with those that can be differentiated as leaves of a new graph.
Tensors variables(const Tensors& inputs) {
  Tensors all;
  for (const Tensor& in : inputs) all.push_back(is_checked(in) ? in.detach().variable() : in);
  return all;
}

Numbers random_numbers(Index count, Key key) {
  return random_normal({count}, key, Dtype::f64).values<double>();
}

Tensor random_like(const Tensor& x, Key key) { return random_normal(x.shape(), key, Dtype::f64); }

// Gradients of s = Σ f c for every input that is checked; empty if none arrived.
Tensors gradients(const Tensor& y, const Tensors& inputs, const Tensor& cotangent,
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

// Compares the gradients of one function at one point with differences.
class Comparison {
 public:
  Comparison(const Function& f, const Tensors& inputs, const GradCheckOptions& options, int order)
      : Comparison(f, inputs, options, order, variables(inputs)) {}

  std::vector<InputReport> reports() {
    std::vector<InputReport> all;
    size_t place = 0;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (is_checked(inputs_[i])) all.push_back(report_on(i, place++));
    return all;
  }

 private:
  Comparison(const Function& f, const Tensors& inputs, const GradCheckOptions& options, int order,
             const Tensors& leaves)
      : Comparison(inputs, options, order, leaves, result_of(f, leaves), f) {}
  Comparison(const Tensors& inputs, const GradCheckOptions& options, int order,
             const Tensors& leaves, const Tensor& y, const Function& f)
      : inputs_(inputs),
        options_(options),
        key_(options.key.fold(order)),
        order_(order),
        tolerance_(options.tolerance * std::pow(10, order - 1)),
        differences_(f, inputs, options.step) {
    const Tensor cotangent = random_like(y, key_.fold("cotangent"));
    cotangent_ = cotangent.values<double>();
    gradients_ = gradients(y, leaves, cotangent, false);
    if (order == 1 && y.size() <= options.full) make_rows(y, leaves);
  }

  static Tensor result_of(const Function& f, const Tensors& leaves) {
    const Tensor y = f(leaves);
    if (!y || y.dtype() != Dtype::f64)
      bad_input("check_gradient: the function returned ",
                y ? describe(y.dtype(), y.shape()) : "no tensor", ", expected f64");
    return y;
  }

  // A claim: the slope of Σ f · weights as one input moves along `way`.
  struct Claim {
    Slope slope = {};
    Numbers way, weights;
    double size = 1;  // the error is relative to this
  };

  // The rows of the Jacobian: for each element of the result, the gradients of all inputs.
  // Those of inputs that are compared by entries are not kept.
  void make_rows(const Tensor& y, const Tensors& leaves) {
    const size_t count = static_cast<size_t>(y.size());
    for (size_t j = 0; j < count; ++j) {
      rows_.push_back(gradients(y, leaves, Tensor::of<double>(y.shape(), one_of(count, j)), false));
      for (Tensor& gradient : rows_.back())
        if (gradient && gradient.size() > options_.full) gradient = {};
    }
  }

  InputReport report_on(size_t input, size_t place) {
    const Tensor& x = inputs_[input];
    const Tensor& gradient = gradients_[place];
    InputReport report;
    report.input =
        input < options_.names.size() ? options_.names[input] : text("input ", input + 1);
    report.order = order_;
    report.shape = x.shape();
    if (input < options_.dims.size()) report.dims = options_.dims[input];
    report.result_dims = options_.result_dims;
    report.severed = !gradient;
    if (gradient && !(gradient.shape() == x.shape()))
      bad_input("check_gradient: the gradient of ", report.input, " has shape ", gradient.shape(),
                ", the input ", x.shape());
    const size_t count = static_cast<size_t>(x.size());
    const Numbers analytic = gradient ? gradient.values<double>() : Numbers(count, 0.0);
    std::vector<Claim> failed;
    compare_directions(report, failed, input, analytic);
    if (!rows_.empty() && x.size() <= options_.full) compare_jacobian(report, failed, input, place);
    else compare_entries(report, failed, input, analytic);
    judge(report, failed, input);
    return report;
  }

  void compare_directions(InputReport& report, std::vector<Claim>& failed, size_t input,
                          const Numbers& analytic) {
    const Key key = key_.fold("input").fold(input).fold("way");
    for (uint64_t trial = 0; trial < 2 && !analytic.empty(); ++trial) {
      Claim claim{.way = random_numbers(static_cast<Index>(analytic.size()), key.fold(trial)),
                  .weights = cotangent_};
      claim.slope.analytic = dot(analytic, claim.way);
      const Numbers column = differences_.slopes(input, claim.way);
      compare(report, failed, std::move(claim), column);
      if (trial == 0) report.along = last_;
    }
  }

  void compare_entries(InputReport& report, std::vector<Claim>& failed, size_t input,
                       const Numbers& analytic) {
    const Key key = key_.fold("input").fold(input).fold("entries");
    for (Index at : sampled(analytic, key)) {
      const size_t entry = static_cast<size_t>(at);
      Claim claim{.way = one_of(analytic.size(), entry), .weights = cotangent_};
      claim.slope.analytic = analytic[entry];
      claim.slope.of_entry = true;
      claim.slope.entry = coordinates(entry, report.shape);
      const Numbers column = differences_.slopes(input, claim.way);
      compare(report, failed, std::move(claim), column);
    }
  }

  // Every entry of the input against every element of the result. A difference gives a column.
  void compare_jacobian(InputReport& report, std::vector<Claim>& failed, size_t input,
                        size_t place) {
    const size_t count = static_cast<size_t>(element_count(report.shape));
    std::vector<Numbers> rows;
    for (const Tensors& row : rows_)
      rows.push_back(row[place] ? row[place].values<double>() : Numbers(count, 0.0));
    for (size_t entry = 0; entry < count; ++entry) {
      const Numbers way = one_of(count, entry), column = differences_.slopes(input, way);
      for (size_t j = 0; j < rows.size(); ++j) {
        Claim claim{.way = way, .weights = one_of(rows.size(), j)};
        claim.slope.analytic = rows[j][entry];
        claim.slope.of_entry = true;
        claim.slope.entry = coordinates(entry, report.shape);
        claim.slope.result = coordinates(j, differences_.shape());
        compare(report, failed, std::move(claim), column);
      }
    }
  }

  void compare(InputReport& report, std::vector<Claim>& failed, Claim claim,
               const Numbers& column) {
    Slope& slope = claim.slope;
    slope.numeric = dot(column, claim.weights);
    claim.size = differences_.scale(claim.weights);
    slope.error =
        std::fabs(slope.analytic - slope.numeric) / std::max(std::fabs(slope.numeric), claim.size);
    if (std::isnan(slope.error)) slope.error = std::numeric_limits<double>::infinity();
    ++report.compared;
    moves_ = moves_ || slope.numeric != 0;
    last_ = slope;
    if (slope.error > tolerance_) failed.push_back(std::move(claim));
    else keep_worst(report, slope);
  }

  // An entry says more than a direction.
  static void keep_worst(InputReport& report, const Slope& slope) {
    report.error = std::max(report.error, slope.error);
    if (std::pair(slope.of_entry, slope.error) >=
        std::pair(report.worst.of_entry, report.worst.error))
      report.worst = slope;
  }

  // Looks at failed claims, entries first and the largest error first. One at a kink, or right with
  // a smaller step, is set aside; the first other one gives the verdict.
  void judge(InputReport& report, std::vector<Claim>& failed, size_t input) {
    std::stable_sort(failed.begin(), failed.end(), [](const Claim& a, const Claim& b) {
      return std::pair(a.slope.of_entry, a.slope.error) >
             std::pair(b.slope.of_entry, b.slope.error);
    });
    const bool moves = std::exchange(moves_, false);
    // A linear function rightly has no second derivative.
    if (failed.empty() && order_ > 1) report.severed = false;
    if (report.severed) report.verdict = moves ? Verdict::severed : Verdict::unreached;
    for (Claim& claim : failed) {
      ErrorCurve curve = curve_of(claim, input);
      const Verdict verdict = curve.verdict;
      if (verdict == Verdict::right) {
        claim.slope.numeric = curve.numeric, claim.slope.error = curve.error;
        keep_worst(report, claim.slope);
        continue;
      }
      if (verdict == Verdict::kink && ++report.kinks > 1) continue;
      report.worst = claim.slope;
      report.curve = std::move(curve);
      report.verdict = verdict;
      if (verdict == Verdict::kink) continue;
      if (report.severed && verdict != Verdict::not_finite) report.verdict = Verdict::severed;
      report.error = claim.slope.error;
      return;
    }
  }

  ErrorCurve curve_of(const Claim& claim, size_t input) {
    const auto rise = [&](double from, double to) {
      return differences_.rise(input, claim.way, claim.weights, from, to);
    };
    return trace(rise, {.analytic = claim.slope.analytic,
                        .size = claim.size,
                        .step = options_.step,
                        .tolerance = tolerance_,
                        .rounding = differences_.rounding(claim.weights),
                        .one_kink = claim.slope.of_entry});
  }

  // All entries if there are few. Otherwise three of four samples are entries whose gradient is not
  // zero, as the zeros of a sparse gradient show little.
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
                          [&](Index i) { return analytic[static_cast<size_t>(i)] != 0; });
    const size_t some = wanted - wanted / 4;
    std::vector<Index> chosen(shuffled.begin(), shuffled.begin() + static_cast<Index>(some));
    chosen.insert(chosen.end(), shuffled.end() - static_cast<Index>(wanted - some), shuffled.end());
    return chosen;
  }

  const Tensors& inputs_;
  const GradCheckOptions& options_;
  Key key_;
  int order_;
  double tolerance_;
  Differences differences_;
  Numbers cotangent_;
  Tensors gradients_;          // one for each input that is checked
  std::vector<Tensors> rows_;  // … for each element of the result; none if there are too many
  Slope last_;
  bool moves_ = false;  // true: the result moves with the input that is being checked
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

bool GradReport::passed() const {
  return std::none_of(inputs.begin(), inputs.end(),
                      [](const InputReport& report) { return is_fault(report.verdict); });
}

GradReport check_gradient(const WatchedFunction& f, const Tensors& inputs,
                          const GradCheckOptions& options) {
  for (const Tensor& in : inputs)
    if (is_checked(in) && in.dtype() != Dtype::f64)
      bad_input("check_gradient: expected f64 inputs, got ", describe(in.dtype(), in.shape()));
  const ExactDenormals exact;
  GradReport report;
  Function function = [&f](const Tensors& in) { return f(in, {}); };
  for (int order = 1; order <= options.order; ++order) {
    if (order > 1) function = gradient_of(function, options.key.fold("gradient").fold(order));
    for (InputReport& each : Comparison(function, inputs, options, order).reports())
      report.inputs.push_back(std::move(each));
  }
  if (options.explain && !report.passed()) report.fault = find_fault(f, inputs, options, report);
  if (report.fault && report.fault->kind == Fault::Kind::kink)
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
