// cross_entropy: loss_t = log Σ_v exp(z_tv) - z_t,target(t), for rows of logits.
// Gradient: dz_tv = g_t (softmax(z_t)_v - [v = target(t)]).
#include "core/ops.hpp"

namespace tete {

static void check(const Tensor& logits, const Tensor& targets) {
  if (logits.rank() != 2 || targets.rank() != 1 || targets.dtype() != Dtype::i64 ||
      !is_real(logits.dtype()) || logits.size(0) != targets.size(0))
    bad_input("cross_entropy: expected logits[t, v] and targets[t] (i64), got ",
              describe(logits.dtype(), logits.shape()), " and ",
              describe(targets.dtype(), targets.shape()));
  const Index classes = logits.size(1);
  targets.backend().check_inside(targets.view(), classes, [=](Index row) {
    bad_input("cross_entropy: target ", targets.values<int64_t>()[static_cast<size_t>(row)],
              " (row ", row, ") is outside the ", classes, " classes of the logits");
  });
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  check(logits, targets);
  const Fused op{
      "cross_entropy",
      [](const Tensors& in) {
        const Shape rows{in[0].size(0)};
        const Tensor loss = Tensor::empty(rows, in[0].dtype(), in[0].backend());
        const Tensor lse = Tensor::empty(rows, in[0].dtype(), in[0].backend());
        return loss.backend().cross_entropy(in[0].view(), in[1].view(), loss.view(), lse.view())
                   ? FusedValue{loss, {lse}}
                   : FusedValue{};
      },
      [](const Backward& at) -> Tensors {
        const Tensor dlogits = Tensor::empty(at.in[0].shape(), at.in[0].dtype(), at.g.backend());
        at.g.backend().cross_entropy_gradient(at.in[0].view(), at.in[1].view(), at.kept[0].view(),
                                              at.g.view(), dlogits.view());
        return {dlogits, Tensor()};
      },
      [](const Tensors& in) {
        return logsumexp("t [v]", in[0]) - gather("t [v], t -> t", in[0], in[1]);
      },
      saves_inputs};
  return fused(op, {logits, targets});
}

}  // namespace tete
