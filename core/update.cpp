// Each update is a kernel of the device, or on a device that lacks it, its meaning in operations.
#include "core/update.hpp"

#include "core/ops.hpp"

namespace tete {

namespace {

void check_one_kind(const char* what, const Tensor& p, const Tensor& other) {
  check_one_device(what, p, other);
  if (!(p.shape() == other.shape()) || p.dtype() != other.dtype())
    bad_input(what, ": expected tensors of one shape and type, got ",
              describe(p.dtype(), p.shape()), " and ", describe(other.dtype(), other.shape()));
}

// x with the strides of Tensor::empty_like(p): dense, in p's memory order.
Tensor in_order_of(const Tensor& p, const Tensor& x) {
  return with_layout(x.detach(), memory_order(p.shape(), p.strides()));
}

// Makes x a copy with these strides, unless it has them and nothing else holds it.
void make_own(Tensor& x, const Strides& strides) {
  if (x.is_only_holder() && x.strides() == strides) return;
  const Tensor copy = Tensor::empty_strided(x.shape(), strides, x.dtype(), x.backend());
  copy_onto(x.detach(), copy);
  x = copy;
}

Tensor meaning_of_squares(const Tensor& x) { return sum(square(cast(x.detach(), Dtype::f64))); }

// Σ g² over one dimension, which keeps size 1. g² is not stored.
Tensor squares_over(const Tensor& g, int dim) {
  Labels all, left;
  for (int i = 0; i < g.rank(); ++i) {
    all.push_back(static_cast<Label>(i));
    if (i != dim) left.push_back(static_cast<Label>(i));
  }
  Shape shape = g.shape();
  shape[dim] = 1;
  return reshape(contract(g, all, g, all, left), shape);
}

}  // namespace

void adam_update(Tensor& p, const Tensor& g, Tensor& m, Tensor& v, const AdamStep& step) {
  check_one_kind("Adam", p, g), check_one_kind("Adam", p, m), check_one_kind("Adam", p, v);
  if (&g == &p || &g == &m || &g == &v || &p == &m || &p == &v || &m == &v)
    bad_input("Adam: expected p, g, m and v as four tensors, got one for two of them");
  const Strides strides = dense_strides(p.shape(), memory_order(p.shape(), p.strides()));
  for (Tensor* each : {&p, &m, &v}) make_own(*each, strides);
  if (p.backend().adam(p.view(), g.view(), m.view(), v.view(), step)) return;
  const Tensor slope = g.detach(), m_to = m * step.beta1 + slope * (1 - step.beta1),
               v_to = v * step.beta2 + square(slope) * (1 - step.beta2);
  p = in_order_of(p, p * step.keep - m_to * step.rate / (sqrt(v_to) * step.unit + step.epsilon));
  m = m_to, v = v_to;
}

Tensor sums_of_squares(std::span<const Tensor> xs, Backend& on) {
  const Tensor sums = Tensor::zeros({static_cast<Index>(xs.size())}, Dtype::f64, on);
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!xs[i]) continue;
    const Tensor sum = sums.window({}, {}, static_cast<Index>(i));
    if (!on.sum_of_squares(xs[i].view(), sum.view())) copy_onto(meaning_of_squares(xs[i]), sum);
  }
  return sums;
}

MeanSquares mean_squares(const Tensor& g, int d0, int d1) {
  const auto empty = [&](int dim) {
    Shape shape = g.shape();
    shape[dim] = 1;
    return Tensor::empty(shape, g.dtype(), g.backend());
  };
  MeanSquares sums{empty(d0), empty(d1)};
  if (!g.backend().squares_over(g.view(), d0, d1, sums.over_d0.view(), sums.over_d1.view()))
    sums = {squares_over(g.detach(), d0), squares_over(g.detach(), d1)};
  return {sums.over_d0 / static_cast<double>(g.size(d0)),
          sums.over_d1 / static_cast<double>(g.size(d1))};
}

Tensor sum_of_squares_of_product(const Tensor& g, const Tensor& a, const Tensor& b) {
  for (const Tensor* other : {&a, &b}) check_one_kind("the sum of a product's squares", g, *other);
  const Tensor sum = Tensor::empty({}, Dtype::f64, g.backend());
  if (!g.backend().sum_of_squares_of_product(g.view(), a.view(), b.view(), sum.view()))
    return meaning_of_squares(g * a * b);
  return sum;
}

UpdatedParameter minus_product(const Tensor& p, const Tensor& g, const Tensor& a, const Tensor& b,
                               const Tensor& rate) {
  for (const Tensor* other : {&g, &a, &b}) check_one_kind("p - rate g a b", p, *other);
  const Tensor from = in_order_of(p, p), along = in_order_of(p, g), made = Tensor::empty_like(p),
               sum = Tensor::empty({}, Dtype::f64, p.backend());
  if (p.backend().minus_product(from.view(), along.view(), a.view(), b.view(), rate.view(),
                                made.view(), sum.view()))
    return {made, sum};
  const Shape once(p.rank(), 1);
  const Tensor step = broadcast(reshape(cast(rate, p.dtype()), once), p.shape());
  const Tensor moved = in_order_of(p, from - step * (along * a * b));
  return {moved, meaning_of_squares(moved)};
}

}  // namespace tete
