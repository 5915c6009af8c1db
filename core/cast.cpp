// cast: the same numbers in another type; the gradient is cast back.
#include "core/ops.hpp"

namespace tete {

Tensor cast(const Tensor& x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  if (dtype == Dtype::bf16) return x.rounded();
  const Tensor y = Tensor::empty_like(x, dtype);
  x.backend().copy(x.view(), y.view());
  if (!is_real(dtype)) return y;
  return record(
      "cast", y, {x},
      [](const Backward& at) -> Tensors {
        const Dtype from = at.in[0].dtype();  // a bf16 input gets an f32 gradient
        return {cast(at.g, from == Dtype::bf16 ? Dtype::f32 : from)};
      },
      saves_nothing);
}

}  // namespace tete
