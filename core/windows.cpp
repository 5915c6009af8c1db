// Windows of a sequence, and the sum of overlapping windows: each is the other's transpose, so each
// is the other's gradient. With a contraction they are every convolution.
#include "core/ops.hpp"

namespace tete {

namespace {

// Element t of every window of a sequence, for windows that start at 0, step, …
Tensor taps(const Tensor& sequence, int axis, Index t, Index step, Index count) {
  Shape shape = sequence.shape();
  Strides strides = sequence.strides();
  shape[axis] = count;
  strides[axis] *= step;
  return sequence.window(shape, strides, count > 0 ? t * sequence.strides()[axis] : 0);
}

}  // namespace

Tensor windows(const Tensor& x, int axis, Index width, Index step) {
  check_axis("windows", x, axis);
  if (width < 1 || step < 1)
    bad_input("windows: expected a width and a step of at least 1, got ", width, " and ", step);
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[axis] = x.size(axis) < width ? 0 : (x.size(axis) - width) / step + 1;
  shape.insert(axis + 1, width);
  strides.insert(axis + 1, strides[axis]);
  strides[axis] *= step;
  return record(
      "windows", x.window(shape, strides), {x},
      [axis, step](const Backward& at) -> Tensors {
        return {overlap_add(at.g, axis, step, at.in[0].size(axis))};
      },
      saves_nothing);
}

// Adds tap by tap: within one tap no two windows share an element, so each element's sum is in the
// order of the taps, for any number of threads.
Tensor overlap_add(const Tensor& x, int axis, Index step, Index size) {
  check_axis("overlap_add", x, axis);
  check_axis("overlap_add", x, axis + 1);
  const Index count = x.size(axis), width = x.size(axis + 1);
  if (step < 1 || size < 0 || (count > 0 && (count - 1) * step + width > size))
    bad_input("overlap_add: ", count, " windows of ", width, " in steps of ", step,
              " do not fit into a dimension of size ", size);
  Shape shape = x.shape();
  shape.erase(axis + 1);
  shape[axis] = size;
  const Tensor y = Tensor::zeros(shape, x.dtype(), x.backend());
  for (Index t = 0; t < width && x.size() > 0; ++t) {
    const Tensor hole = taps(y, axis, t, step, count);
    const Tensor part = row_of(x.detach(), axis + 1, t);
    const Tensor total = Tensor::empty(hole.shape(), x.dtype(), x.backend());
    x.backend().binary(Binary::add, hole.view(), part.view(), total.view());
    x.backend().copy(total.view(), hole.view());
  }
  return record(
      "overlap_add", y, {x},
      [axis, step](const Backward& at) -> Tensors {
        const Tensor all = windows(at.g, axis, at.in[0].size(axis + 1), step);
        return {slice(all, axis, 0, at.in[0].size(axis))};  // more may fit than there were
      },
      saves_nothing);
}

}  // namespace tete
