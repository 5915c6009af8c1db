#include "nn/growing_rows.hpp"

#include "core/fused.hpp"
#include "core/ops.hpp"

namespace tete {

namespace {

// Strides of a shape in the memory order of x, but for `axis`, whose rows lie side by side: those
// of one head are read from the first to the last. Rows of one number each stay as they are.
Strides with_rows_together(const Tensor& x, const Shape& shape, int axis) {
  Short<int> order = memory_order(x.shape(), x.strides());
  if (order.back() == axis) return dense_strides(shape, order);
  order.erase(order.find(axis));
  order.insert(order.size() - 1, axis);
  return dense_strides(shape, order);
}

}  // namespace

void GrowingRows::append(const Tensor& more, int axis) {
  if (!rows_) {
    rows_ = more;
    return;
  }
  const Index before = rows_.size(axis), after = before + more.size(axis);
  if (!room_ || room_.size(axis) < after) {
    Shape shape = rows_.shape();
    shape[axis] = after + after / 4;
    room_ = Tensor::empty_strided(shape, with_rows_together(rows_, shape, axis), rows_.dtype(),
                                  rows_.backend());
    copy_onto(rows_, slice(room_, axis, 0, before));
  }
  copy_onto(more, slice(room_, axis, before, more.size(axis)));
  rows_ = slice(room_, axis, 0, after);
}

}  // namespace tete
