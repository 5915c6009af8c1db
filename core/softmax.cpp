// softmax: y_m = exp(x_m - max x) / Σ exp(x - max x), over one dimension.
// With a mask only visible elements count. A row that is hidden everywhere gives zeros, not NaN, so
// padding can never poison a batch.
// Gradient: dx = y (g - Σ y g).
#include "core/ops.hpp"

namespace tete {

namespace {

Shape with_size_one(Shape shape, int axis) {
  shape[axis] = 1;
  return shape;
}

Tensor constant(const Tensor& like, const Shape& shape, double value) {
  return Tensor::repeated(value, shape, like.dtype(), like.backend());
}

// x where visible, else a number so low that its exponential is zero. The largest visible x of a
// row is subtracted; a row without one subtracts nothing and divides zeros by one.
Tensor softmax_meaning(const Tensor& x, const Tensor& mask, int axis) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Shape row = with_size_one(x.shape(), axis);
  const Tensor visible = mask ? mask : constant(x, x.shape(), 1);
  const Tensor hidden_low = select(visible, x, constant(x, x.shape(), -infinity));
  const Tensor highest = max(hidden_low.detach(), {axis}, true);
  const Tensor nothing = equal(highest, constant(x, row, -infinity));
  const Tensor top = select(nothing, constant(x, row, 0), highest);
  const Tensor e = exp(hidden_low - broadcast(top, x.shape()));
  const Tensor total = sum(e, {axis}, true) + nothing;
  return e / broadcast(total, x.shape());
}

Tensor softmax_over(const Tensor& x, const Tensor& mask, int axis) {
  if (!is_real(x.dtype()))
    bad_input("softmax: expected real numbers, got ", describe(x.dtype(), x.shape()));
  if (axis < 0 || axis >= x.rank())
    bad_input("softmax: ", axis, " is not a dimension of ", describe(x.dtype(), x.shape()));
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

int marked_axis(const char* op, const Pattern& pattern) {
  const Labels marked = Pattern::marked(pattern.operand(0));
  if (marked.size() != 1)
    refuse(op, text("expected one dimension in [ ], got ", marked.size(), "."), pattern.text(),
           {{span_of_operand(pattern, 0)}});
  return Pattern::labels(pattern.operand(0)).find(marked[0]);
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) { return softmax_over(x, Tensor(), axis); }

Tensor softmax(const Tensor& x, int axis, const Tensor& mask) {
  return softmax_over(x, fitted(mask, x), axis);
}

Tensor softmax(const PatternOf<1>& pattern, const Tensor& x) {
  bind_sizes("softmax", pattern, {{x.shape()}}, {{x.dtype()}});
  return softmax(x, marked_axis("softmax", pattern));
}

Tensor softmax(const PatternOf<2>& pattern, const Tensor& x, const Tensor& mask) {
  bind_sizes("softmax", pattern, {{x.shape(), mask.shape()}}, {{x.dtype(), mask.dtype()}});
  const Labels all = Pattern::labels(pattern.operand(0));
  const Labels masked = Pattern::labels(pattern.operand(1));
  Axes order, missing;
  for (int i = 0; i < all.size(); ++i) {
    if (const int at = masked.find(all[i]); at >= 0) order.push_back(at);
    else missing.push_back(i);
  }
  for (const Axis& axis : pattern.operand(1))
    if (!all.contains(axis.label))
      refuse("softmax", text("'", pattern.name(axis.label), "' of the mask is not in the logits."),
             pattern.text(), {{span_of(pattern, axis)}});
  const Tensor aligned = expand(permute(mask.detach(), order), missing, x.shape());
  return softmax(x, marked_axis("softmax", pattern), aligned);
}

// log softmax = x - logsumexp x.
Tensor log_softmax(const Tensor& x, int axis) {
  return x - broadcast(logsumexp(x, {axis}, true), x.shape());
}

Tensor log_softmax(const Tensor& x, int axis, const Tensor& mask) {
  const Tensor visible = fitted(mask, x);
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor low = select(visible, x, constant(x, x.shape(), -infinity));
  const Tensor total = broadcast(logsumexp(low, {axis}, true), x.shape());
  return select(visible, x - total, constant(x, x.shape(), 0));
}

}  // namespace tete
