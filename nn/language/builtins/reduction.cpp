// Reductions: sum(X[…], reduced_dim=d), …; every name of X stays but d.
#include "nn/language/builtins/along.hpp"

namespace tete {

namespace {

void read_argument(Reading& reading, const ExprText& e, Node& node) {
  node.args.push_back(reading.tensor(e.args[0], *node.builtin));
  reading.need_dim(node, node.args[0], "what is reduced");
}
void read_result(Reading& reading, const ExprText& e, Node& node) {
  const Node& x = node.args[0];
  for (int name : x.names)
    if (name != node.dim()) node.names.push_back(name);
  reading.refuse_unexpected(e, node.names);
  node.element = node.builtin->keeps_element ? x.element : node.builtin->result;
}

void check(Reading& reading, const ExprText& e, Node& node) {
  read_argument(reading, e, node);
  read_result(reading, e, node);
}
// Truth values are counted.
void check_sum(Reading& reading, const ExprText& e, Node& node) {
  check(reading, e, node);
  if (node.element == Element::truth) node.element = Element::whole;
}
void check_any(Reading& reading, const ExprText& e, Node& node) {
  read_argument(reading, e, node);
  need(node.args[0], Element::truth, "any");
  read_result(reading, e, node);
}

template <Tensor (*f)(const Tensor&, const Axes&, bool)>
Value run(Runner& runner, const Node& node) {
  const Value x = runner.reference(node.args[0]);
  return {f(x.tensor, Axes{runner.axis_of(x, node.dim())}, false), node.names, x.batched};
}

Tensor smallest(const Tensor& x, const Axes& axes, bool keep) { return -max(-x, axes, keep); }

// The pairs that stay hidden if zeros reduce to zero.
AxisPairs left(const FlowFinder& flow, const CallFlow& call, bool keeps_places = false) {
  const int dim = call.node.dim();
  const bool stays = flow.within(dim) == Role::none && (keeps_places || !flow.is_place(dim));
  return stays ? call.args[0].hidden : AxisPairs{};
}

// Hidden zeros do not change a sum, nor a mean of as many.
AxisPairs sum_hides(FlowFinder& flow, const CallFlow& call) {
  flow.combined(call.node, call.node.dim(), call.node.args[0], call.args[0], true);
  return left(flow, call);
}
AxisPairs min_hides(FlowFinder& flow, const CallFlow& call) {
  combines_along(flow, call);
  return left(flow, call, call.node.element == Element::truth);
}
AxisPairs hides(FlowFinder& flow, const CallFlow& call) {
  combines_along(flow, call);
  return left(flow, call);
}

constexpr KeyRow keys[] = {{"reduced_dim", KeyRow::Kind::dim}};

constexpr Builtin rows[] = {
    {.name = "sum",
     .usage = "sum(X[…], reduced_dim=d)",
     .meaning = "the sum over d",
     .keys = keys,
     .keeps_element = true,
     .check = check_sum,
     .run = run<sum>,
     .hides = sum_hides},
    {.name = "mean",
     .usage = "mean(X[…], reduced_dim=d)",
     .meaning = "the mean over d",
     .keys = keys,
     .counts_positions = true,
     .check = check,
     .run = run<mean>,
     .hides = sum_hides},
    {.name = "max",
     .usage = "max(X[…], reduced_dim=d)",
     .meaning = "the largest over d",
     .keys = keys,
     .keeps_element = true,
     .check = check,
     .run = run<max>,
     .hides = hides},
    {.name = "min",
     .usage = "min(X[…], reduced_dim=d)",
     .meaning = "the smallest over d",
     .keys = keys,
     .keeps_element = true,
     .check = check,
     .run = run<smallest>,
     .hides = min_hides},
    {.name = "any",
     .usage = "any(X[…], reduced_dim=d)",
     .meaning = "whether one over d is true",
     .keys = keys,
     .keeps_element = true,
     .check = check_any,
     .run = run<max>,
     .hides = hides},
    {.name = "logsumexp",
     .usage = "logsumexp(X[…], reduced_dim=d)",
     .meaning = "log Σ e^x over d",
     .keys = keys,
     .check = check,
     .run = run<logsumexp>,
     .hides = combines_along},
};

}  // namespace

std::span<const Builtin> reduction_functions() { return rows; }

}  // namespace tete
