#include "core/update.hpp"

#include <vector>

#include "core/cpu/kernels.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete {

using namespace cpu_kernels;

namespace {

// Operations an element costs, roughly.
constexpr double cost = 4;
// Bytes from where on what is written does not stay in the caches until it is read.
constexpr size_t large = 8 << 20;

void check_alike(const char* what, const Tensor& p, const Tensor& other) {
  if (!(p.shape() == other.shape()) || p.dtype() != other.dtype())
    bad_input(what, ": expected tensors of one shape and type, got ",
              describe(p.dtype(), p.shape()), " and ", describe(other.dtype(), other.shape()));
}

// p as its results lie: in the same order, without gaps.
Tensor without_gaps(const Tensor& p) {
  const Tensor dense = Tensor::empty_like(p);
  if (dense.strides() == p.strides()) return p;
  copy(p.view(), dense.view());
  return dense;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> adam_update(const Tensor& p, const Tensor& g, const Tensor& m,
                                               const Tensor& v, const AdamStep& step) {
  for (const Tensor* other : {&g, &m, &v}) check_alike("Adam", p, *other);
  const Tensor old = without_gaps(p);
  const std::tuple made{Tensor::empty_like(p), Tensor::empty_like(p), Tensor::empty_like(p)};
  const View y = std::get<0>(made).view(), m_to = std::get<1>(made).view(),
             v_to = std::get<2>(made).view();
  const View from[] = {old.view(), g.view(), m.view(), v.view()};
  visit(p.dtype(), [&]<class T>() {
    const auto number = [](double x) { return static_cast<T>(x); };
    const AdamNumbers<T> numbers{number(step.beta1),     number(1 - step.beta1), number(step.beta2),
                                 number(1 - step.beta2), number(step.keep),      number(step.rate),
                                 number(step.unit),      number(step.epsilon)};
    const auto loops = collapse(loops_of<5>({&y, &from[0], &from[1], &from[2], &from[3]}), 0);
    for_each_row(loops, cost, [&](auto& at, Index n, Index) {
      rows<T>().adam({numbers, from[0].as<T>() + at[1], from[1].as<T>() + at[2],
                      from[2].as<T>() + at[3], from[3].as<T>() + at[4], loops.inner_stride(2),
                      loops.inner_stride(3), loops.inner_stride(4), y.as<T>() + at[0],
                      m_to.as<T>() + at[0], v_to.as<T>() + at[0], n});
    });
  });
  return made;
}

double sum_of_squares_of_product(const Tensor& g, const Tensor& a, const Tensor& b) {
  for (const Tensor* other : {&a, &b}) check_alike("the sum of a product's squares", g, *other);
  const View x = g.view(), first = a.view(), second = b.view();
  const auto loops = collapse(loops_of<3>({&x, &first, &second}), 0);
  const Index n = loops.inner(), pieces = n >= block_size ? (n + block_size - 1) / block_size : 1;
  std::vector<double> sums(static_cast<size_t>(loops.rows() * pieces));
  visit(g.dtype(), [&]<class T>() {
    for_each_row(loops, cost, [&](auto& at, Index count, Index position) {
      const Index sum = position / n * pieces + position % n / block_size;
      sums[static_cast<size_t>(sum)] = static_cast<double>(rows<T>().product_squares(
          {x.as<T>() + at[0], first.as<T>() + at[1], second.as<T>() + at[2], loops.inner_stride(0),
           loops.inner_stride(1), loops.inner_stride(2), count}));
    });
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

Tensor minus_product(const Tensor& p, const Tensor& g, const Tensor& a, const Tensor& b,
                     double rate) {
  for (const Tensor* other : {&g, &a, &b}) check_alike("p - rate g a b", p, *other);
  const Tensor dense = without_gaps(p), made = Tensor::empty_like(p);
  const bool past_caches = static_cast<size_t>(p.size()) * size_of(p.dtype()) >= large;
  const View y = made.view(), old = dense.view(), x = g.view(), first = a.view(), second = b.view();
  visit(p.dtype(), [&]<class T>() {
    const auto loops = collapse(loops_of<5>({&y, &old, &x, &first, &second}), 0);
    for_each_row(loops, cost, [&](auto& at, Index n, Index) {
      rows<T>().minus_product(
          {x.as<T>() + at[2], first.as<T>() + at[3], second.as<T>() + at[4], loops.inner_stride(2),
           loops.inner_stride(3), loops.inner_stride(4), n},
          old.as<T>() + at[1], static_cast<T>(rate), y.as<T>() + at[0], past_caches);
    });
  });
  return made;
}

}  // namespace tete
