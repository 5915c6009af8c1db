// Softmax along one axis, row by row.
#include "core/cpu/relaid.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {

bool CpuBackend::softmax(const View& x, const View& mask, int axis, const View& y) {
  const Index n = x.shape[axis];
  if (y.size() == 0) return true;
  Relaid from = rowwise(x, axis), seen = rowwise(mask, axis), to = rowwise(y, axis);
  const View &vx = from.source(), &vm = seen.source(), &vy = to.target();
  const bool masked = vm.data != nullptr;
  const auto loops = rows_along<3>({&vy, &vx, masked ? &vm : &vx}, axis);
  visit(y.dtype, [&]<class T>() {
    for_each_row_along(loops, n, 10, [&](const RowCursor<3>& at) {
      rows<T>().softmax(vx.as<T>() + at[1], masked ? vm.as<T>() + at[2] : nullptr,
                        vy.as<T>() + at[0], n);
    });
  });
  to.finish();
  return true;
}

bool CpuBackend::softmax_gradient(const View& y, const View& g, int axis, const View& dx) {
  const Index n = y.shape[axis];
  if (y.size() == 0) return true;
  Relaid from = rowwise(y, axis), upstream = rowwise(g, axis), to = rowwise(dx, axis);
  const View &vy = from.source(), &vg = upstream.source(), &vdx = to.target();
  const auto loops = rows_along<3>({&vdx, &vy, &vg}, axis);
  visit(y.dtype, [&]<class T>() {
    for_each_row_along(loops, n, 4, [&](const RowCursor<3>& at) {
      rows<T>().softmax_gradient(vy.as<T>() + at[1], vg.as<T>() + at[2], vdx.as<T>() + at[0], n);
    });
  });
  to.finish();
  return true;
}

}  // namespace tete::cpu_kernels
