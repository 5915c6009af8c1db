// Softmax along one axis, row by row. A row that is not side by side in memory passes through a
// buffer.
#include <vector>

#include "core/cpu/fused.hpp"
#include "core/cpu/kernels.hpp"
#include "core/cpu/line.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {

void softmax(const View& x, const View& mask, int axis, const View& y) {
  const Index n = x.shape[axis];
  if (n == 0) return;
  const bool masked = mask.data != nullptr;
  const auto loops = rows_along<3>({&y, &x, masked ? &mask : &x}, axis);
  visit(y.dtype, [&]<class T>() {
    struct Buffers {
      Line<T> x, mask, y;
    };
    for_each_block(
        loops, n, 10, [&] { return Buffers(); },
        [&](const RowCursor<3>& at, Buffers& line) {
          T* const to = line.y.target(y.as<T>() + at[0], y.strides[axis], n);
          const T* const from = line.x.source(x.as<T>() + at[1], x.strides[axis], n);
          const T* const seen =
              masked ? line.mask.source(mask.as<T>() + at[2], mask.strides[axis], n) : nullptr;
          rows<T>().softmax(from, seen, to, n);
          line.y.finish(y.as<T>() + at[0], y.strides[axis], n);
        });
  });
}

void softmax_gradient(const View& y, const View& g, int axis, const View& dx) {
  const Index n = y.shape[axis];
  if (n == 0) return;
  const auto loops = rows_along<3>({&dx, &y, &g}, axis);
  visit(y.dtype, [&]<class T>() {
    struct Buffers {
      Line<T> y, g, dx;
    };
    for_each_block(
        loops, n, 4, [&] { return Buffers(); },
        [&](const RowCursor<3>& at, Buffers& line) {
          T* const to = line.dx.target(dx.as<T>() + at[0], dx.strides[axis], n);
          rows<T>().softmax_gradient(line.y.source(y.as<T>() + at[1], y.strides[axis], n),
                                     line.g.source(g.as<T>() + at[2], g.strides[axis], n), to, n);
          line.dx.finish(dx.as<T>() + at[0], dx.strides[axis], n);
        });
  });
}

}  // namespace tete::cpu_kernels
