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

// A sum over a memory axis is no leak if a factor with that axis is zero at hidden positions.
bool hides(LeakFinder& leaks, const Node& node, const std::vector<Flow>& args) {
  bool keeps_query = false, keeps_memory = false, hidden = false, whole = true;
  for (int name : node.names) {
    keeps_query |= leaks.role(name) == Role::query;
    keeps_memory |= leaks.role(name) == Role::memory;
  }
  for (size_t i = 0; i < args.size(); ++i) {
    hidden |= args[i].hidden && keeps_query && keeps_memory;
    for (int name : node.args[i].names) {
      if (node.names.contains(name)) continue;
      whole = whole && !leaks.is_place(name);
      if (leaks.role(name) == Role::none) continue;
      bool masked = false;
      for (size_t k = 0; k < args.size(); ++k)
        masked |= args[k].hidden && node.args[k].names.contains(name);
      if (!(masked && leaks.role(name) == Role::memory && keeps_query))
        leaks.combined(node, name, node.args[i], args[i]);
    }
  }
  return hidden && whole;
}

constexpr Builtin rows[] = {
    {.name = "einsum",
     .usage = "einsum(A[…], B[…], …)",
     .meaning = "the sum over every name that is not on the left",
     .most = max_operands,
     .check = check,
     .run = run,
     .hides = hides},
};

}  // namespace

std::span<const Builtin> einsum_functions() { return rows; }

}  // namespace tete
