#include "core/check/on_device.hpp"

#include <cmath>

#include "core/ops.hpp"

namespace tete {

namespace {

// The result, then the gradients of all inputs that are checked. One that nothing reaches is empty.
Tensors computed(const WatchedFunction& f, const Tensors& inputs, Dtype dtype, Backend& on,
                 Key key) {
  Tensors leaves, asked;
  for (const Tensor& in : inputs) {
    leaves.push_back(is_checked(in) ? cast(in.detach(), dtype).to(on).variable()
                     : in           ? in.to(on)
                                    : in);
    if (is_checked(in)) asked.push_back(leaves.back());
  }
  const Tensor y = f(leaves, {});
  Tensors all{y};
  if (!y.tracked()) return all.resize(1 + asked.size()), all;
  const Tensor cotangent = cast(random_normal(y.shape(), key, Dtype::f64), dtype).to(on);
  for (const Tensor& g : grad(y, asked, {.cotangent = cotangent})) all.push_back(g);
  return all;
}

// Both norms, and ‖theirs - ours‖ / ‖ours‖. A norm below 0.01 counts as that: small gradients of
// large numbers that cancel have an error of those.
Slope compared(const Tensor& theirs, const Tensor& ours) {
  if (!theirs || !ours)
    return {.error = static_cast<bool>(theirs) == static_cast<bool>(ours) ? 0. : 1.};
  const std::vector<double> x = theirs.values(), y = ours.values();
  double apart = 0, theirs_squared = 0, ours_squared = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    theirs_squared += x[i] * x[i], ours_squared += y[i] * y[i];
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    apart += (x[i] - y[i]) * (x[i] - y[i]);
  }
  const double norm = std::sqrt(ours_squared);
  return {.analytic = std::sqrt(theirs_squared),
          .numeric = norm,
          .error = std::sqrt(apart) / std::max(0.01, norm)};
}

}  // namespace

GradReport check_on_device(const WatchedFunction& f, const Tensors& inputs,
                           const GradCheckOptions& options) {
  const Key key = options.key.fold("cotangent");
  const Tensors theirs = computed(f, inputs, Dtype::f32, *options.device, key),
                ours = computed(f, inputs, Dtype::f64, cpu(), key);
  GradReport report;
  const auto add = [&](const std::string& name, const Tensor& like) {
    const size_t i = report.inputs.size();
    InputReport each;
    each.input = name, each.shape = like.shape();
    each.worst = compared(theirs[i], ours[i]);
    each.error = each.worst.error;
    each.verdict = each.error <= options.tolerance ? Verdict::right : Verdict::wrong;
    each.compared = like.size();
    report.worst = std::max(report.worst, each.error);
    report.inputs.push_back(each);
  };
  add("the result", ours[0]);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_checked(inputs[i]))
      add(i < options.names.size() ? options.names[i] : text("input ", i + 1), inputs[i]);
  return report;
}

}  // namespace tete
