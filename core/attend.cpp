// attend: y = w v, where w = softmax(q kᵀ) over the memory, row by row. Logits and weights are not
// stored; the gradient computes them again from two numbers of each row (Dao, Fu, Ermon, Rudra, Ré
// 2022, "FlashAttention", section 3.1).
#include "core/ops.hpp"

namespace tete {

namespace {

// The labels of x's dimensions: those before the last two, and these two.
Labels labels(const Tensor& x, int row, int column) {
  Labels all;
  for (int d = 0; d + 2 < x.rank(); ++d) all.push_back(static_cast<Label>(d));
  for (int last : {row, column}) all.push_back(static_cast<Label>(x.rank() + last));
  return all;
}

// v's shape with another number of rows, and strides for it in v's memory order.
Shape with_rows(const Tensor& v, Index rows) {
  Shape shape = v.shape();
  shape[v.rank() - 2] = rows;
  return shape;
}
Strides strides_like(const Tensor& v, const Shape& shape) {
  return dense_strides(shape, memory_order(v.shape(), v.strides()));
}

// 1 where a row of the logits sees the position.
Tensor shown_to_rows(const Tensor& logits, Index shown) {
  const int rows = logits.rank() - 2, memory = rows + 1;
  const auto along = [&](int axis, double from) {
    Axes others = all_axes(logits.rank());
    others.erase(axis);
    return expand(arange(logits.size(axis), logits.dtype(), logits.backend()) + from, others,
                  logits.shape());
  };
  return less(along(memory, 0), along(rows, static_cast<double>(shown)));
}

Tensor meaning(const Tensors& in, Index shown) {
  enum { n, m, c, e };
  const Tensor &q = in[0], &k = in[1], &v = in[2];
  const Labels all = labels(q, n, m), result = labels(v, n, e);
  const Tensor logits = contract(q, labels(q, n, c), k, labels(k, m, c), all, all);
  Tensor mask = in[3];
  if (shown < k.size(k.rank() - 2)) {
    const Tensor seen = shown_to_rows(logits, shown);
    mask = mask ? mask * seen : seen;
  }
  const int axis = logits.rank() - 1;
  const Tensor weights = mask ? softmax(logits, axis, mask) : softmax(logits, axis);
  Labels layout;
  for (int d : memory_order(v.shape(), v.strides())) layout.push_back(result[d]);
  return contract(weights, all, v, labels(v, m, e), result, layout);
}

View view_of(const Tensor& x) { return x ? x.view() : View{}; }

FusedValue value(const Tensors& in, Index shown) {
  const Tensor &q = in[0], &v = in[2];
  const Shape shape = with_rows(v, q.size(q.rank() - 2));
  Shape two = shape;
  two.back() = 2;
  const Tensor y = Tensor::empty_strided(shape, strides_like(v, shape), v.dtype(), v.backend()),
               stats = Tensor::empty(two, v.dtype(), v.backend());
  const bool done = v.backend().attend(q.view(), in[1].view(), v.view(), view_of(in[3]), shown,
                                       y.view(), stats.view());
  return done ? FusedValue{y, {stats}} : FusedValue{};
}

Tensors gradient(const Backward& at, Index shown) {
  const Tensor &q = at.in[0], &k = at.in[1], &v = at.in[2];
  const auto wanted = [&](size_t i) {
    return at.wants(i) ? Tensor::empty_like(at.in[i]) : Tensor();
  };
  const Tensors made{wanted(0), wanted(1), wanted(2), Tensor()};
  q.backend().attend_gradient(q.view(), k.view(), v.view(), view_of(at.in[3]), shown,
                              at.kept[0].view(), at.g.view(), view_of(made[0]), view_of(made[1]),
                              view_of(made[2]));
  return made;
}

// Fails unless shapes agree but for what the last two dimensions say.
void check(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto before = [](const Tensor& x, int last) {
    Shape shape = x.shape();
    while (last-- > 0 && !shape.empty()) shape.pop_back();
    return shape;
  };
  const bool fit = q.rank() >= 2 && is_real(q.dtype()) && k.dtype() == q.dtype() &&
                   v.dtype() == q.dtype() && before(k, 1) == before(v, 1) &&
                   before(q, 2) == before(k, 2) && q.shape().back() == k.shape().back();
  if (!fit)
    bad_input("attend: expected q[…, n, c], k[…, m, c] and v[…, m, e] of one real type, got ",
              describe(q.dtype(), q.shape()), ", ", describe(k.dtype(), k.shape()), " and ",
              describe(v.dtype(), v.shape()));
}

}  // namespace

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, Index shown) {
  check(q, k, v);
  Shape pairs = q.shape();
  pairs.back() = k.size(k.rank() - 2);
  const Tensor fitted = mask ? broadcast(cast(mask.detach(), q.dtype()), pairs) : Tensor();
  const Fused op{"attend", [=](const Tensors& in) { return value(in, shown); },
                 [=](const Backward& at) { return gradient(at, shown); },
                 [=](const Tensors& in) { return meaning(in, shown); }, saves_inputs};
  return fused(op, {q, k, v, fitted});
}

}  // namespace tete
