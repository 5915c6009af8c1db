// softmax(x, reduced_dim=d, mask=V[…], extra_logit=z) = e^x / (e^z + Σ e^x), summed over the
// visible positions of d; and its logarithm. Hidden positions give 0, and so does a row that sees
// nothing.
#include "nn/language/builtins/along.hpp"

namespace tete {

namespace {

// R6: true if the node has both sequence axes and reduces one of them.
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

// The logit that each row has besides, or null.
const Node* extra_logit(const Node& node) {
  return node.keys[2].value.empty() ? nullptr : &node.keys[2].value[0];
}

void check(Reading& reading, const ExprText& e, Node& node) {
  check_along(reading, e, node);
  if (const Node* mask = mask_of(node))
    for (int name : mask->names)
      if (!node.names.contains(name))
        fail_at({mask->place, e.args[0].place},
                text("'", reading.in.own_name(name),
                     "' is a dimension of the mask but not of what it masks"));
  if (const Node* extra = extra_logit(node))
    if (extra->names.contains(node.dim()))
      fail_at({extra->place}, text("extra_logit= is one for each row: it has no '",
                                   reading.in.own_name(node.dim()), "'"));
  node.takes_call_mask = takes_call_mask(reading.in.draft, node);
  reading.in.draft.program.takes_mask |= node.takes_call_mask;
}

struct Argument {
  Value x;
  Tensor visible;  // of x's shape; none: all is
};

// The logits and the mask of a call; its extra logit is not among them.
Argument argument_of(Runner& runner, const Node& node) {
  Value x = runner.node(node.args[0]), mask;
  if (node.takes_call_mask && runner.hides_something()) mask = runner.call_mask(node.names);
  if (const Node* of_call = mask_of(node)) {
    const Value own = runner.node(*of_call);
    mask = mask.tensor ? runner.both(mask, own, x.names) : own;
  }
  if (mask.tensor && mask.batched) x = runner.aligned(x, x.names, true);
  Tensor visible;
  if (mask.tensor) visible = runner.aligned(mask, x.names, x.batched).tensor;
  return {x, visible};
}

using Soft = Tensor (*)(const Tensor&, int);
using MaskedSoft = Tensor (*)(const Tensor&, int, const Tensor&);

// x with one more position at the end of the reduced dimension, which is visible to every row.
Value with_extra(Runner& runner, const Node& extra, const Value& x, int dim, Tensor& visible) {
  Names rest;
  for (int name : x.names)
    if (name != dim) rest.push_back(name);
  const Value z = runner.node(extra);
  const bool batched = x.batched || z.batched;
  const Value wide = runner.aligned(x, x.names, batched);
  const int axis = runner.axis_of(wide, dim);
  Shape one = wide.tensor.shape();
  one[axis] = 1;
  if (visible) {
    if (!(visible.shape() == wide.tensor.shape()))
      visible = runner.aligned({visible, x.names, x.batched}, x.names, batched).tensor;
    visible = concat({visible, spread(1, one, visible.dtype(), visible.backend())}, axis);
  }
  const Tensor added = reshape(runner.aligned(z, rest, batched).tensor, one);
  return {concat({wide.tensor, added}, axis), x.names, batched};
}

template <Soft soft, MaskedSoft masked>
Value run(Runner& runner, const Node& node) {
  auto [x, visible] = argument_of(runner, node);
  const Index size = runner.size(node.dim());
  if (const Node* extra = extra_logit(node)) x = with_extra(runner, *extra, x, node.dim(), visible);
  const int axis = runner.axis_of(x, node.dim());
  const Tensor y = visible ? masked(x.tensor, axis, visible) : soft(x.tensor, axis);
  return {extra_logit(node) ? slice(y, axis, 0, size) : y, x.names, x.batched};
}

AxisPairs hides(FlowFinder& flow, const CallFlow& call) {
  const Node& node = call.node;
  const bool masked = node.takes_call_mask || !call.keys[1].hidden.empty();
  if (masked && flow.within(node.dim()) == Role::memory) return flow.pairs_of(node.names);
  return combines_along(flow, call);
}

constexpr KeyRow keys[] = {{"reduced_dim", KeyRow::Kind::dim},
                           {"mask", KeyRow::Kind::truth, false},
                           {"extra_logit", KeyRow::Kind::real, false}};

constexpr Builtin rows[] = {
    {.name = "softmax",
     .usage = "softmax(x, reduced_dim=d, mask=V[…], extra_logit=z)",
     .meaning = "e^x / Σ e^x over d, of what is visible; where d is one of two sequence axes it "
                "takes the call's mask too",
     .keys = keys,
     .masks = true,
     .check = check,
     .run = run<softmax, softmax>,
     .hides = hides},
    {.name = "log_softmax",
     .usage = "log_softmax(x, reduced_dim=d, mask=V[…], extra_logit=z)",
     .meaning = "x - log Σ e^x over d, of what is visible; what is hidden is 0",
     .keys = keys,
     .masks = true,
     .check = check,
     .run = run<log_softmax, log_softmax>,
     .hides = hides},
};

}  // namespace

std::span<const Builtin> softmax_functions() { return rows; }

}  // namespace tete
