// einsum(A[…], B[…], …): the sum over every name that is not on the left (R2).
#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

// The result has exactly the names of the left, and each is in an operand.
void check(Reading& reading, const ExprText& e, Node& node) {
  for (const ExprText& arg : e.args) node.args.push_back(reading.tensor(arg, *node.builtin));
  for (int name : reading.expected) {
    const bool found = std::any_of(node.args.begin(), node.args.end(),
                                   [&](const Node& arg) { return arg.names.contains(name); });
    if (!found)
      fail_at({reading.in.place_of(*reading.left, name), e.place},
              text("'", reading.in.own_name(name), "' is on the left but in no operand of einsum"));
  }
  node.names = reading.expected;
}

Value run(Runner& runner, const Node& node) {
  std::vector<Value> operands;
  for (const Node& arg : node.args) operands.push_back(runner.reference(arg));
  return runner.contracted(node, operands);
}

bool sums_a_place(const FlowFinder& flow, const Node& node) {
  for (const Node& arg : node.args)
    for (int name : arg.names)
      if (!node.names.contains(name) && flow.is_place(name)) return true;
  return false;
}

// A sum over a memory axis is no leak if a factor with that axis is zero at hidden positions.
// Today any hidden factor counts for every pair of the result's axes.
AxisPairs hides(FlowFinder& flow, const CallFlow& call) {
  const Node& node = call.node;
  const auto is_query = [&](int name) { return flow.within(name) == Role::query; };
  const bool keeps_query = std::any_of(node.names.begin(), node.names.end(), is_query);
  bool hidden = false;
  for (size_t i = 0; i < call.args.size(); ++i) {
    hidden |= !call.args[i].hidden.empty();
    for (int name : node.args[i].names) {
      if (node.names.contains(name)) continue;
      bool masked = false;
      for (size_t k = 0; k < call.args.size(); ++k)
        masked |= !call.args[k].hidden.empty() && node.args[k].names.contains(name);
      if (!(masked && flow.within(name) == Role::memory && keeps_query))
        flow.combined(node, name, node.args[i], call.args[i]);
    }
  }
  return hidden && !sums_a_place(flow, node) ? flow.pairs_of(node.names) : AxisPairs{};
}

constexpr Builtin rows[] = {
    {.name = "einsum",
     .usage = "einsum(A[…], B[…], …)",
     .meaning = "the sum over every name that is not on the left",
     .most = max_operands,
     .contracts = true,
     .check = check,
     .run = run,
     .hides = hides},
};

}  // namespace

std::span<const Builtin> einsum_functions() { return rows; }

}  // namespace tete
