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

Tensor Tensor::to(Backend& device) const {
  if (&device == &backend()) return *this;
  const Tensor dense = empty_like(*this),
               y = empty_strided(shape(), dense.strides(), dtype(), device);
  backend().copy(view(), dense.view());
  const size_t bytes = static_cast<size_t>(size()) * size_of(dtype());
  if (&backend() == &cpu()) {
    device.write(dense.view().data, y.view().data, bytes);
  } else {
    const Tensor here = &device == &cpu() ? y : empty_strided(shape(), dense.strides(), dtype());
    backend().read(dense.view().data, here.view().data, bytes);
    if (&device != &cpu()) device.write(here.view().data, y.view().data, bytes);
  }
  if (!is_real(dtype())) return y;
  Backend* const here = &backend();
  return record(
      "to", y, {*this}, [here](const Backward& at) -> Tensors { return {at.g.to(*here)}; },
      saves_nothing);
}

}  // namespace tete
