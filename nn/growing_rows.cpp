#include "nn/growing_rows.hpp"

#include "core/fused.hpp"
#include "core/ops.hpp"

namespace tete {

void GrowingRows::append(const Tensor& more, int axis) {
  if (!rows_) {
    rows_ = more;
    return;
  }
  const Index before = rows_.size(axis), after = before + more.size(axis);
  if (!room_ || room_.size(axis) < after) {
    Shape shape = rows_.shape();
    shape[axis] = after + after / 4;
    room_ = Tensor::empty(shape, rows_.dtype(), rows_.backend());
    copy_onto(rows_, slice(room_, axis, 0, before));
  }
  copy_onto(more, slice(room_, axis, before, more.size(axis)));
  rows_ = slice(room_, axis, 0, after);
}

}  // namespace tete
