// einsum(A[…], B[…], …): the sum over every name that is not on the left. R2: of two or more
// operands, such a name is in two at least, as a typo would be a sum otherwise.
#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

void refuse_accidental_sum(const Reading& reading, const ExprText& e, const Node& node) {
  if (node.args.size() < 2 || !reading.left) return;
  for (size_t i = 0; i < node.args.size(); ++i)
    for (int name : node.args[i].names) {
      const auto holders = std::count_if(node.args.begin(), node.args.end(),
                                         [&](const Node& arg) { return arg.names.contains(name); });
      if (holders > 1 || reading.expected.contains(name)) continue;
      const RefText& ref = e.args[i].ref;
      const std::string own = reading.in.own_name(name);
      fail_at({reading.in.place_of(ref, name), reading.left->whole}, "'", own,
              "' is in one operand of einsum only and not on the left; if it is ",
              "to be summed, write sum(", written(ref), ", reduced_dim=", own,
              ") in a statement of its own");
    }
}

// The result has exactly the names of the left, and each is in an operand.
void check(Reading& reading, const ExprText& e, Node& node) {
  for (const ExprText& arg : e.args) node.args.push_back(reading.tensor(arg, *node.builtin));
  for (int name : reading.expected) {
    const bool found = std::any_of(node.args.begin(), node.args.end(),
                                   [&](const Node& arg) { return arg.names.contains(name); });
    if (!found)
      fail_at({reading.in.place_of(*reading.left, name), e.place}, "'", reading.in.own_name(name),
              "' is on the left but in no operand of einsum",
              &e == reading.right ? "" : "; give it a name in a statement of its own");
  }
  refuse_accidental_sum(reading, e, node);
  node.names = reading.expected;
}

Value run(Runner& runner, const Node& node) {
  std::vector<Value> operands;
  for (const Node& arg : node.args) operands.push_back(runner.reference(arg));
  return runner.contracted(node, operands);
}

// The product is 0 where one factor is; then every name that the result lacks is summed.
void flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  const Node& node = call.node;
  Names summed;
  for (size_t i = 0; i < node.args.size(); ++i) {
    for (const Hidden& hidden : call.args[i].hidden)
      if (is_zero(hidden.number) && !holds(out.hidden, hidden)) out.hidden.push_back(hidden);
    for (int name : node.args[i].names)
      if (!node.names.contains(name) && !summed.contains(name)) summed.push_back(name);
  }
  finder.reduce(node, summed, out, is_zero);
}

constexpr Builtin rows[] = {
    {.usage = "einsum(A[…], B[…], …)",
     .meaning = "the sum over names that the left lacks",
     .example = "L[n, m] = einsum(X[n, d], M[m, d])",
     .arguments = {1, max_operands},
     .contracts = true,
     .adds = true,
     .check = check,
     .run = run,
     .flow = flow},
};

}  // namespace

std::span<const Builtin> einsum_functions() { return rows; }

}  // namespace tete
