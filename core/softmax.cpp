// softmax: y_m = exp(x_m - max x) / Σ exp(x - max x), over one dimension.
// With a mask only visible elements count. A row that is hidden everywhere gives zeros, not NaN, so
// padding can never poison a batch.
// Gradient: dx = y (g - Σ y g).
#include "core/ops.hpp"

namespace tete {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// x where visible, else a number so low that its exponential is zero. The largest visible x of a
// row is subtracted; a row that shows nothing subtracts nothing and divides zeros by one. A row
// that shows -inf alone is NaN.
Tensor softmax_meaning(const Tensor& x, const Tensor& mask, int axis) {
  const Tensor visible = mask ? mask : Tensor::repeated_like(x, 1);
  const Tensor hidden_low = select(visible, x, Tensor::repeated_like(x, -infinity));
  const Tensor highest = max(hidden_low.detach(), {axis}, true);
  const Tensor shown = max(abs(visible), {axis}, true);
  const Tensor nothing = equal(shown, Tensor::repeated_like(shown, 0));
  const Tensor top = select(nothing, Tensor::repeated_like(highest, 0), highest);
  const Tensor e = exp(hidden_low - broadcast(top, x.shape()));
  const Tensor total = sum(e, {axis}, true) + nothing;
  return e / broadcast(total, x.shape());
}

Tensor softmax_over(const Tensor& x, const Tensor& mask, int axis) {
  if (!is_real(x.dtype()))
    bad_input("softmax: expected real numbers, got ", describe(x.dtype(), x.shape()));
  check_axis("softmax", x, axis);
  const Fused op{"softmax",
                 [axis](const Tensors& in) {
                   const Tensor y = Tensor::empty_like(in[0]);
                   const View mask = in[1] ? in[1].view() : View{};
                   return y.backend().softmax(in[0].view(), mask, axis, y.view()) ? FusedValue{y}
                                                                                  : FusedValue{};
                 },
                 [axis](const Backward& at) -> Tensors {
                   const Tensor dx = Tensor::empty_like(at.y);
                   dx.backend().softmax_gradient(at.y.view(), at.g.view(), axis, dx.view());
                   return {dx, Tensor()};
                 },
                 [axis](const Tensors& in) { return softmax_meaning(in[0], in[1], axis); },
                 saves_result,
                 [axis](const Backward& at) -> Tensors {
                   const Tensor total = sum(at.y * at.g, {axis}, true);
                   return {at.y * (at.g - broadcast(total, at.y.shape())), Tensor()};
                 }};
  return fused(op, {x, mask});
}

// The mask in x's shape and type; every dimension is x's or 1.
Tensor fitted(const Tensor& mask, const Tensor& x) {
  return broadcast(cast(mask.detach(), x.dtype()), x.shape());
}

int marked_axis(const Pattern& pattern) {
  return Pattern::labels(pattern.operand(0)).find(only_marked("softmax", pattern, 0));
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) { return softmax_over(x, Tensor(), axis); }

Tensor softmax(const Tensor& x, int axis, const Tensor& mask) {
  return softmax_over(x, fitted(mask, x), axis);
}

Tensor softmax(const PatternOf<1>& pattern, const Tensor& x) {
  bind_sizes("softmax", pattern, {{x.shape()}}, {{x.dtype()}});
  return softmax(x, marked_axis(pattern));
}

Tensor softmax(const PatternOf<2>& pattern, const Tensor& x, const Tensor& mask) {
  const Sizes sizes =
      bind_sizes("softmax", pattern, {{x.shape(), mask.shape()}}, {{x.dtype(), mask.dtype()}});
  const Labels all = Pattern::labels(pattern.operand(0));
  const Labels masked = Pattern::labels(pattern.operand(1));
  for (const Axis& axis : pattern.operand(1))
    if (!all.contains(axis.label))
      refuse("softmax", text("'", pattern.name(axis.label), "' of the mask is not in the logits."),
             pattern.text(), {{span_of(pattern, axis)}});
  return softmax(x, marked_axis(pattern), aligned(mask.detach(), masked, all, sizes));
}

// log softmax = x - logsumexp x.
Tensor log_softmax(const Tensor& x, int axis) {
  return x - broadcast(logsumexp(x, {axis}, true), x.shape());
}

Tensor log_softmax(const Tensor& x, int axis, const Tensor& mask) {
  const Tensor visible = fitted(mask, x);
  const Tensor low = select(visible, x, Tensor::repeated_like(x, -infinity));
  const Tensor total = broadcast(logsumexp(low, {axis}, true), x.shape());
  return select(visible, x - total, Tensor::repeated_like(x, 0));
}

}  // namespace tete
