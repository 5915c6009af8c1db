#include "nn/forward.hpp"

namespace tete {

Forward Forward::with(const Tensors& values) const {
  Forward other = *this;
  other.params = values;
  return other;
}

Tensor Forward::replacement(const std::string& path, const Tensor& x) const {
  const Tensor y = replace(path, x);
  if (!y) bad_input("the hook at '", path, "' returned no tensor");
  if (y.dtype() != x.dtype() || !(y.shape() == x.shape()))
    bad_input("the hook at '", path, "' returned ", describe(y.dtype(), y.shape()), ", expected ",
              describe(x.dtype(), x.shape()));
  // In another memory order, later products might be rounded differently.
  return y.same(x) ? y : with_layout(y, memory_order(x.shape(), x.strides()));
}

Tensor Forward::offer(const std::string& path, const Tensor& x) const {
  const Tensor y = replaces(path) ? replacement(path, x) : x;
  if (watches(path)) watch(path, y);
  return y;
}

}  // namespace tete
