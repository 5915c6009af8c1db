// position(n) and index(d): 0, 1, … along a dimension.
#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

void check(Reading& reading, const ExprText& e, Node& node) {
  node.names.push_back(reading.dimension_argument(e.args[0], *node.builtin));
  reading.refuse_unexpected(e, node.names);
  node.element = Element::whole;
}

void check_position(Reading& reading, const ExprText& e, Node& node) {
  check(reading, e, node);
  if (reading.in.draft.dim(node.names[0]).role == Role::none)
    fail_at({e.args[0].place}, "'", e.args[0].word.name,
            "' is not a sequence axis here, so it has no positions; ", "index(",
            e.args[0].word.name, ") counts along any dimension");
}

Value run(Runner& runner, const Node& node) {
  const Tensor count = arange(runner.size(node.names[0]), runner.dtype());
  const Index first = runner.first(node.names[0]);
  return {first == 0 ? count : count + static_cast<double>(first), node.names, false};
}

// New pieces alone are not counted from the first.
void index_flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  const int dim = call.node.names[0];
  if (!finder.is_sequence(dim)) finder.needs_all(dim, out);
}

constexpr Builtin rows[] = {
    {.usage = "position(n)",
     .meaning = "0, 1, … along a sequence; the last of a causal call's two are the same",
     .example = "A[n, m] = L[n, m] - abs(position(n) - position(m))",
     .is_position = true,
     .check = check_position,
     .run = run},
    {.usage = "index(d)",
     .meaning = "0, 1, … along a dimension",
     .example = "Y[n, d] = X[n, d] * exp(-index(d))",
     .check = check,
     .run = run,
     .flow = index_flow},
};

}  // namespace

std::span<const Builtin> position_functions() { return rows; }

}  // namespace tete
