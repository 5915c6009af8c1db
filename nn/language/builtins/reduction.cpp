// Reductions: sum(X[…], reduced_dim=d), …; every name of X stays but d. All but sum and any leave
// out what is hidden (R18); over nothing they give 0.
#include <cmath>

#include "nn/language/builtins/masked.hpp"

namespace tete {

namespace {

void check(Reading& reading, const ExprText& e, Node& node) {
  const Node& x = read_tensor(reading, e, node, "what is reduced");
  node.names = x.names.without(node.dim());
  reading.refuse_unexpected(e, node.names);
  node.element = node.builtin->keeps_element ? x.element : node.builtin->result;
}

constexpr size_t key_mask = 1;

void check_masked(Reading& reading, const ExprText& e, Node& node) {
  check(reading, e, node);
  check_mask(reading, node.args[0].names, node.args[0].place, key_mask, node);
}
// Truth values are counted.
void check_sum(Reading& reading, const ExprText& e, Node& node) {
  check(reading, e, node);
  if (node.element == Element::truth) node.element = Element::whole;
}
void check_any(Reading& reading, const ExprText& e, Node& node) {
  check(reading, e, node);
  need(node.args[0], Element::truth, "any");
}

Value of_nothing(Runner& runner, const Node& node, const Value& x) {
  const Shape shape = runner.shape_of(node.names, x.batched);
  return {Tensor::repeated(0, shape, x.tensor.dtype(), x.tensor.backend()), node.names, x.batched};
}

template <Tensor (*f)(const Tensor&, const Axes&, bool)>
Value run(Runner& runner, const Node& node) {
  const Value x = runner.reference(node.args[0]);
  const Axes axes{runner.axis_of(x, node.dim())};
  if (x.tensor.size(axes[0]) == 0) return of_nothing(runner, node, x);
  return {f(x.tensor, axes, false), node.names, x.batched};
}

// A number that a maximum of others does not show, nor a sum of e to their power.
constexpr double lowest = -3e38;

using Reduction = Tensor (*)(const Tensor&, const Axes&);

Tensor largest(const Tensor& x, const Axes& axes) { return max(x, axes); }
Tensor smallest(const Tensor& x, const Axes& axes) { return -max(-x, axes); }
Tensor total(const Tensor& x, const Axes& axes) { return sum(x, axes); }
Tensor average(const Tensor& x, const Axes& axes) { return mean(x, axes); }
Tensor log_total(const Tensor& x, const Axes& axes) { return logsumexp(x, axes); }

// f over all positions; with a mask, `part` of the numbers in which what is hidden is `neutral`.
template <Reduction f, Reduction part, bool counts>
Value run_masked(Runner& runner, const Node& node, double neutral) {
  const auto [x, visible] = masked_argument(runner, node, runner.reference(node.args[0]), key_mask);
  const Axes axes{runner.axis_of(x, node.dim())};
  if (x.tensor.size(axes[0]) == 0) return of_nothing(runner, node, x);
  if (!visible) return {f(x.tensor, axes), node.names, x.batched};
  Tensor y = part(select(visible, x.tensor, Tensor::repeated_like(x.tensor, neutral)), axes);
  const Tensor seen = counts ? sum(visible, axes) : max(visible, axes);
  if (counts) y = y / max(seen, Tensor::repeated_like(seen, 1));
  else y = select(seen, y, Tensor::repeated_like(y, 0));
  return {y, node.names, x.batched};
}

template <Reduction f>
Value run_largest(Runner& runner, const Node& node) {
  return run_masked<f, f, false>(runner, node, lowest);
}
Value run_smallest(Runner& runner, const Node& node) {
  return run_masked<smallest, smallest, false>(runner, node, -lowest);
}
Value run_mean(Runner& runner, const Node& node) {
  return run_masked<average, total, true>(runner, node, 0);
}

// ---- Flow ---------------------------------------------------------------------------------------

// Numbers that are hidden in the argument, whatever is reduced, and what `all` makes of as many.
void reduce_hidden(const CallFlow& call, double (*all)(double), ValueFlow& out) {
  for (const Hidden& hidden : call.args[0].hidden)
    if (!hidden.mentions(call.node.dim()))
      out.hidden.push_back({hidden.query, hidden.memory, all(hidden.number), all(hidden.in_f32)});
}
double itself(double number) { return number; }
double zero_or_unknown(double number) { return number == 0 ? 0 : std::nan(""); }

void sum_flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  out.hidden = call.args[0].hidden;
  finder.reduce(call.node, {call.node.dim()}, out, is_zero);
  out.hidden = {};
  reduce_hidden(call, zero_or_unknown, out);
}
template <FlowFinder::Neutral neutral>
void masked_flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  const bool is_masked = !reduce_masked(finder, call, key_mask, neutral, out).empty();
  out.hidden = {};
  reduce_hidden(call, is_masked ? zero_or_unknown : itself, out);
}
bool none(double) { return false; }
bool is_highest(double hidden) { return hidden >= 1e30; }

// The minimum of truth values is false if the last place of a window is hidden.
void min_flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  masked_flow<is_highest>(finder, call, out);
  if (call.node.element != Element::truth || !call.node.keys[key_mask].value.empty()) return;
  for (const Hidden& hidden : call.args[0].hidden)
    if (hidden.memory.place == call.node.dim() && is_zero(hidden.number))
      out.hidden.push_back({hidden.query, hidden.memory.of_window(), 0});
}
void logsumexp_flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  reduce_masked(finder, call, key_mask, is_lowest, out);
  out.hidden = {};
}

constexpr KeyRow keys[] = {{"reduced_dim", KeyKind::dim}};
constexpr KeyRow masked_keys[] = {{"reduced_dim", KeyKind::dim}, {"mask", KeyKind::truth, false}};

constexpr Builtin rows[] = {
    {.usage = "sum(X[…], reduced_dim=d)",
     .meaning = "the sum over d",
     .example = "S[n] = sum(X[n, d], reduced_dim=d)",
     .keys = keys,
     .keeps_element = true,
     .adds = true,
     .check = check_sum,
     .run = run<sum>,
     .flow = sum_flow},
    {.usage = "mean(X[…], reduced_dim=d, mask=V[…])",
     .meaning = "the mean over d, of what is visible",
     .example = "A[d] = mean(X[n, d], reduced_dim=n)",
     .keys = masked_keys,
     .counts_positions = true,
     .check = check_masked,
     .run = run_mean,
     .flow = masked_flow<none>},
    {.usage = "max(X[…], reduced_dim=d, mask=V[…])",
     .meaning = "the largest over d, of what is visible",
     .example = "A[n] = max(L[n, m], reduced_dim=m)",
     .keys = masked_keys,
     .keeps_element = true,
     .elementwise = "relu(x), clip(x, low, high) or select(a > b, a, b)",
     .check = check_masked,
     .run = run_largest<largest>,
     .flow = masked_flow<is_lowest>},
    {.usage = "min(X[…], reduced_dim=d, mask=V[…])",
     .meaning = "the smallest over d, of what is visible",
     .example = "A[n] = min(L[n, m], reduced_dim=m)",
     .keys = masked_keys,
     .keeps_element = true,
     .elementwise = "clip(x, low, high) or select(a < b, a, b)",
     .check = check_masked,
     .run = run_smallest,
     .flow = min_flow},
    {.usage = "any(X[…], reduced_dim=d)",
     .meaning = "whether one over d is true",
     .example = "A[n] = any(C[n, m], reduced_dim=m)",
     .keys = keys,
     .keeps_element = true,
     .check = check_any,
     .run = run<max>,
     .flow = sum_flow},
    {.usage = "logsumexp(X[…], reduced_dim=d, mask=V[…])",
     .meaning = "log Σ e^x over d, of what is visible",
     .example = "A[n] = logsumexp(L[n, m], reduced_dim=m)",
     .keys = masked_keys,
     .check = check_masked,
     .run = run_largest<log_total>,
     .flow = logsumexp_flow},
};

}  // namespace

std::span<const Builtin> reduction_functions() { return rows; }

}  // namespace tete
