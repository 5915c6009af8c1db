// softmax(x, reduced_dim=d, mask=V[…], extra_logit=z) = e^x / (e^z + Σ e^x), summed over the
// visible positions of d; and its logarithm. Hidden positions give 0, and so does a row that sees
// nothing.
#include "nn/language/builtins/softmax.hpp"

#include "nn/language/builtins/masked.hpp"

namespace tete {

namespace {

enum Key { key_dim, key_mask, key_extra };

void check(Reading& reading, const ExprText& e, Node& node) {
  check_along(reading, e, node);
  check_mask(reading, node.names, e.args[0].place, key_mask, node);
  if (const Node* extra = value_of(node, key_extra))
    if (extra->names.contains(node.dim()))
      fail_at({extra->place}, "extra_logit= is one for each row: it has no '",
              reading.in.own_name(node.dim()), "'");
}

using Soft = Tensor (*)(const Tensor&, int);
using MaskedSoft = Tensor (*)(const Tensor&, int, const Tensor&);

// x with one more position at the end of the reduced dimension, which is visible to every row.
Value with_extra(Runner& runner, const Node& extra, const Value& x, int dim, Tensor& visible) {
  const Value z = runner.node(extra);
  const bool batched = x.batched || z.batched;
  const Value wide = runner.aligned(x, x.names, batched);
  const int axis = runner.axis_of(wide, dim);
  Shape one = wide.tensor.shape();
  one[axis] = 1;
  if (visible) {
    if (!(visible.shape() == wide.tensor.shape()))
      visible = runner.aligned({visible, x.names, x.batched}, x.names, batched).tensor;
    visible = concat({visible, Tensor::repeated(1, one, visible.dtype(), visible.backend())}, axis);
  }
  const Tensor added = reshape(runner.aligned(z, x.names.without(dim), batched).tensor, one);
  return {concat({wide.tensor, added}, axis), x.names, batched};
}

template <Soft soft, MaskedSoft masked>
Value run(Runner& runner, const Node& node) {
  auto [x, visible] = masked_argument(runner, node, runner.node(node.args[0]), key_mask);
  const Index size = runner.size(node.dim());
  const Node* const extra = value_of(node, key_extra);
  if (extra) x = with_extra(runner, *extra, x, node.dim(), visible);
  const int axis = runner.axis_of(x, node.dim());
  const Tensor y = visible ? masked(x.tensor, axis, visible) : soft(x.tensor, axis);
  return {extra ? slice(y, axis, 0, size) : y, x.names, x.batched};
}

// Weights are 0 where the masks hide the logits.
void flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  ValueFlow reduced = out;
  const auto none = [](double) { return false; };
  out.hidden = reduce_masked(finder, call, key_mask, none, reduced);
  out.reads = reduced.reads, out.padding = reduced.padding;
  out.by_row = reduced.by_row, out.past = {};
}

constexpr KeyRow keys[] = {{"reduced_dim", KeyKind::dim},
                           {"mask", KeyKind::truth, false},
                           {"extra_logit", KeyKind::real, false}};

constexpr Builtin rows[] = {
    {.usage = "softmax(x, reduced_dim=d, mask=V[…], extra_logit=z)",
     .meaning = "e^x / Σ e^x over d, of what is visible; where d is one of two sequence axes it "
                "takes the call's mask too",
     .example = "W[n, m] = softmax(L[n, m], reduced_dim=m)",
     .keys = keys,
     .masks = true,
     .check = check,
     .run = run<softmax, softmax>,
     .flow = flow},
    {.usage = "log_softmax(x, reduced_dim=d, mask=V[…], extra_logit=z)",
     .meaning = "x - log Σ e^x over d, of what is visible; what is hidden is 0",
     .example = "W[n, m] = log_softmax(L[n, m], reduced_dim=m)",
     .keys = keys,
     .masks = true,
     .check = check,
     .run = run<log_softmax, log_softmax>,
     .flow = flow},
};

}  // namespace

std::span<const Builtin> softmax_functions() { return rows; }

bool is_plain_softmax(const Node& node) {
  return node.builtin && node.builtin->run == rows[0].run && !value_of(node, key_extra);
}

std::optional<Index> shown_to_first(Runner& runner, const Node& softmax, int rows) {
  if (own_mask(softmax)) return {};
  return runner.shown_to_first(softmax.args[0].names, rows, softmax.dim());
}

Value mask_of_softmax(Runner& runner, const Node& softmax) {
  return mask_of(runner, softmax, softmax.args[0].names, key_mask);
}

}  // namespace tete
