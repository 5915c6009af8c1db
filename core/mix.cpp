#include "core/mix.hpp"

#include "core/ops.hpp"

namespace tete {

Tensor mixed(const Tensor& x, int dimension, const Tensor& P) {
  if (!P) return x;
  Labels from, to, layout;
  for (int d = 0; d < x.rank(); ++d) from.push_back(static_cast<Label>(d));
  const auto heads = static_cast<Label>(dimension), others = static_cast<Label>(x.rank());
  to = from;
  to[heads] = others;
  for (int d : memory_order(x.shape(), x.strides())) layout.push_back(to[d]);
  return contract(x, from, P, {heads, others}, to, layout);
}

Index mixed_heads(const char* operation, Dtype dtype, Index heads, const Tensors& matrices) {
  for (const Tensor& P : matrices) {
    if (!P) continue;
    if (P.dtype() != dtype || P.rank() != 2 || P.size(0) != heads)
      bad_input(operation, ": expected a matrix of ", name_of(dtype), " from ", heads,
                " heads to others, got ", describe(P.dtype(), P.shape()));
    heads = P.size(1);
  }
  return heads;
}

Tensor resized_like(const Tensor& x, int dimension, Index size) {
  Shape shape = x.shape();
  shape[dimension] = size;
  const Strides strides = dense_strides(shape, memory_order(x.shape(), x.strides()));
  return Tensor::empty_strided(shape, strides, x.dtype(), x.backend());
}

View view_of(const Tensor& x) { return x ? x.view() : View{}; }

}  // namespace tete
