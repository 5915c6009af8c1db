// softmax(x, reduced_dim=d, mask=V[…]) = e^x / Σ e^x over d, of what is visible; and its logarithm.
// What is hidden gives 0, and so does a row that sees nothing.
#include "nn/builtins/along.hpp"

namespace tete {

namespace {

// R6: where one of the two sequence axes of a tensor that has both is reduced.
bool takes_call_mask(const Draft& draft, const Node& node) {
  bool query = false, memory = false;
  for (int name : node.names) {
    query |= draft.dim(name).role == Role::query;
    memory |= draft.dim(name).role == Role::memory;
  }
  return query && memory && draft.dim(node.dim()).role != Role::none;
}

const Node* mask_of(const Node& node) {
  return node.keys[1].value.empty() ? nullptr : &node.keys[1].value[0];
}

void check(Reading& reading, const ExprText& e, Node& node) {
  check_along(reading, e, node);
  if (const Node* mask = mask_of(node))
    for (int name : mask->names)
      if (!node.names.contains(name))
        fail_at({mask->place, e.args[0].place},
                "the mask has a dimension that what it masks lacks");
  node.takes_call_mask = takes_call_mask(reading.in.draft, node);
  reading.in.draft.program.takes_mask |= node.takes_call_mask;
}

using Soft = Tensor (*)(const Tensor&, int);
using MaskedSoft = Tensor (*)(const Tensor&, int, const Tensor&);

template <Soft soft, MaskedSoft masked>
Value run(Runner& runner, const Node& node) {
  Value x = runner.node(node.args[0]), mask;
  if (node.takes_call_mask && runner.hides_something()) mask = runner.call_mask(node.names);
  if (const Node* of_call = mask_of(node)) {
    const Value own = runner.node(*of_call);
    mask = mask.tensor ? runner.both(mask, own, x.names) : own;
  }
  if (mask.tensor && mask.batched) x = runner.aligned(x, x.names, true);
  const int axis = runner.axis_of(x, node.dim());
  if (!mask.tensor) return {soft(x.tensor, axis), x.names, x.batched};
  const Tensor visible = runner.aligned(mask, x.names, x.batched).tensor;
  return {masked(x.tensor, axis, visible), x.names, x.batched};
}

bool hides(LeakFinder& leaks, const Node& node, const std::vector<Flow>& args) {
  if (node.takes_call_mask && leaks.role(node.dim()) == Role::memory) return true;
  return combines_along(leaks, node, args);
}

constexpr KeyRow keys[] = {{"reduced_dim", KeyRow::Kind::dim},
                           {"mask", KeyRow::Kind::truth, false}};

constexpr Builtin rows[] = {
    {.name = "softmax",
     .usage = "softmax(x, reduced_dim=d, mask=V[…])",
     .meaning = "e^x / Σ e^x over d, of what is visible; where d is one of two sequence axes it "
                "takes the call's mask too",
     .keys = keys,
     .check = check,
     .run = run<softmax, softmax>,
     .hides = hides},
    {.name = "log_softmax",
     .usage = "log_softmax(x, reduced_dim=d, mask=V[…])",
     .meaning = "x - log Σ e^x over d, of what is visible; what is hidden is 0",
     .keys = keys,
     .check = check,
     .run = run<log_softmax, log_softmax>,
     .hides = hides},
};

}  // namespace

std::span<const Builtin> softmax_functions() { return rows; }

}  // namespace tete
