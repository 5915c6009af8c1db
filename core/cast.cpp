// cast: the same numbers in another type; the gradient is cast back.
#include "core/ops.hpp"

namespace tete {

Tensor cast(const Tensor& x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor y = Tensor::empty_like(x, dtype);
  x.backend().copy(x.view(), y.view());
  if (!is_real(dtype)) return y;
  return record("cast", y, {x},
                [](const Backward& at) -> Tensors { return {cast(at.g, at.in[0].dtype())}; });
}

}  // namespace tete
