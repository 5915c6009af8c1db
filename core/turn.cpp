// Pairs of numbers that are turned, as rotary positions do (Su et al. 2021, section 3.4.2).
#include "core/ops.hpp"

namespace tete {

namespace {

// This is linear in x: its gradient is turned back, which is the same with the two of each pair
// exchanged.
Tensor turned(const Tensor& x, int axis, const Tensor& cosine, const Tensor& sine, bool back) {
  const Tensor from = x.detach(), y = Tensor::empty_like(from);
  const Tensor a = row_of(from, axis, back), b = row_of(from, axis, !back);
  const Tensor ya = row_of(y, axis, back), yb = row_of(y, axis, !back);
  if (!y.backend().turn(a.view(), b.view(), cosine.view(), sine.view(), ya.view(), yb.view())) {
    copy_onto(a * cosine - b * sine, ya);
    copy_onto(a * sine + b * cosine, yb);
  }
  return record(
      "turn", y, {x},
      [axis, back](const Backward& at) -> Tensors {
        return {turned(at.g, axis, at.kept[0], at.kept[1], !back)};
      },
      {cosine, sine}, CodeLine::here(), saves_nothing);
}

}  // namespace

Tensor turn(const Tensor& x, int axis, const Tensor& cosine, const Tensor& sine) {
  check_axis("turn", x, axis);
  Shape shape = x.shape();
  shape.erase(axis);
  check_one_device("turn", Tensors{x, cosine, sine});
  for (const Tensor* factor : {&cosine, &sine})
    if (x.size(axis) != 2 || factor->shape() != shape || factor->dtype() != x.dtype() ||
        !is_real(x.dtype()))
      bad_input("turn: expected a real tensor with pairs along dimension ", axis,
                ", and a cosine and a sine for each, got ", describe(x.dtype(), x.shape()), " and ",
                describe(factor->dtype(), factor->shape()));
  return turned(x, axis, cosine.detach(), sine.detach(), false);
}

}  // namespace tete
