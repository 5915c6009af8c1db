// top_k(S[…, s, …], reduced_dim=s, dim=t): the positions of the t largest, the largest first; equal
// ones keep their order.
#include <limits>

#include "nn/language/builtins/masked.hpp"

namespace tete {

namespace {

constexpr size_t key_mask = 2;

int kept(const Node& node) { return node.keys[1].dim; }

void check(Reading& reading, const ExprText& e, Node& node) {
  const Node& x = read_tensor(reading, e, node, "what the largest are of");
  refuse_known(reading, e, node, 1, kept(node));
  set_names(reading, e, x.names.without(node.dim()), {kept(node)}, node);
  node.element = Element::whole;
  check_mask(reading, x.names, x.place, key_mask, node);
}

Value run(Runner& runner, const Node& node) {
  const auto [x, visible] = masked_argument(runner, node, runner.reference(node.args[0]), key_mask);
  const Index size = runner.size(node.dim()), count = runner.size(kept(node));
  if (count > size)
    fail_at({node.place}, "the ", count, " largest (", runner.dimension(kept(node)).name, ") of ",
            size, " (", runner.dimension(node.dim()).name, ")");
  Tensor of = x.tensor.detach();
  const double infinity = std::numeric_limits<double>::infinity();
  if (visible) of = select(visible, of, Tensor::repeated_like(of, -infinity));
  const Tensor found = top_k(of, runner.axis_of(x, node.dim()), count);
  Names names;
  for (int name : x.names) names.push_back(name == node.dim() ? kept(node) : name);
  return runner.aligned({cast(found, runner.dtype()), names, x.batched}, node.names, x.batched);
}

bool none(double) { return false; }

// Hidden positions come after all visible ones, so a row that sees less than t is given hidden
// ones: their places do not depend on the data. Behind low numbers that a mask shows come those
// that it hides, so that a row may be given them by how many come later.
void flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  const bool is_masked = value_of(call.node, key_mask) || call.node.takes_call_mask;
  reduce_masked(finder, call, key_mask, is_masked ? none : is_lowest, out);
  out.hidden = {};
}

constexpr KeyRow keys[] = {
    {"reduced_dim", KeyKind::dim}, {"dim", KeyKind::dim}, {"mask", KeyKind::truth, false}};

constexpr Builtin rows[] = {
    {.usage = "top_k(S[…, s], reduced_dim=s, dim=t, mask=V[…])",
     .meaning = "the positions of the t largest over s, of what is visible, the largest first",
     .example = "I[n, t] = top_k(L[n, m], reduced_dim=m, dim=t)",
     .keys = keys,
     .counts_positions = true,
     .check = check,
     .run = run,
     .flow = flow},
};

}  // namespace

std::span<const Builtin> top_k_functions() { return rows; }

}  // namespace tete
