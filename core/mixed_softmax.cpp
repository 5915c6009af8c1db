// mixed_softmax: a softmax between two mixes of heads, of which the second may be missing. A
// softmax that is mixed only afterwards is no such operation: it need not keep its logits.
#include "core/mix.hpp"
#include "core/ops.hpp"

namespace tete {

namespace {

Tensor meaning(const Tensors& in) {
  const Tensor logits = mixed(in[0], in[0].rank() - 2, in[1]);
  const int keys = logits.rank() - 1;
  const Tensor weights = in[3] ? softmax(logits, keys, in[3]) : softmax(logits, keys);
  return mixed(weights, keys - 1, in[2]);
}

void check(const Tensor& x, const Tensor& before, const Tensor& after) {
  if (!is_real(x.dtype()) || x.rank() < 2)
    bad_input("mixed_softmax: expected real numbers [..., heads, keys], got ",
              describe(x.dtype(), x.shape()));
  if (!before) bad_input("mixed_softmax: expected a matrix that mixes heads before, got none");
  mixed_heads("mixed_softmax", x.dtype(), x.size(x.rank() - 2), {before, after});
}

}  // namespace

Tensor mixed_softmax(const Tensor& x, const Tensor& before, const Tensor& mask,
                     const Tensor& after) {
  check(x, before, after);
  const Index heads = before.size(1);
  Shape shape = x.shape();
  shape[x.rank() - 2] = heads;
  const Tensor fitted = mask ? broadcast(cast(mask.detach(), x.dtype()), shape) : Tensor();
  const bool keeps = after && (x.tracked() || before.tracked() || after.tracked());
  const Fused op{
      "mixed_softmax",
      [=](const Tensors& in) -> FusedValue {
        const Tensor y = resized_like(in[0], in[0].rank() - 2, after ? after.size(1) : heads),
                     weights = keeps ? resized_like(in[0], in[0].rank() - 2, heads) : Tensor();
        if (!y.backend().mixed_softmax(in[0].view(), in[1].view(), view_of(in[3]), view_of(in[2]),
                                       view_of(weights), y.view()))
          return {};
        return {y, keeps ? Tensors{weights} : Tensors{}};
      },
      [](const Backward& at) -> Tensors {
        const Tensor &x = at.in[0], &before = at.in[1], &after = at.in[2];
        const auto wanted = [&](size_t i) {
          return at.in[i] && at.wants(i) ? Tensor::empty_like(at.in[i]) : Tensor();
        };
        const Tensors made{wanted(0), wanted(1), wanted(2), Tensor()};
        const Tensor& weights = after ? at.kept[0] : at.y;
        x.backend().mixed_softmax_gradient(x.view(), before.view(), weights.view(), view_of(after),
                                           at.g.view(), view_of(made[0]), view_of(made[1]),
                                           view_of(made[2]));
        return made;
      },
      meaning,
      {.result = !after}};
  return fused(op, {x, before, after, fitted});
}

}  // namespace tete
