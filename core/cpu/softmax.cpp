// Softmax along one axis, row by row. An axis without stride 1 is first copied to one with it: two
// transposes cost less than rows of far apart numbers.
#include <memory>

#include "core/cpu/backend.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {
namespace {

// A view with stride 1 along an axis: the given one, or memory of its own.
class Rowwise {
 public:
  Rowwise(const View& given, int axis) : given_(given), view_(given) {
    if (!given.data || given.strides[axis] == 1 || given.shape[axis] == 1) return;
    Short<int> order = memory_order(given.shape, given.strides);
    order.erase(order.find(axis));
    order.push_back(axis);
    view_.strides = dense_strides(given.shape, order);
    scratch_ = std::make_unique<Scratch>(static_cast<size_t>(given.size()) * size_of(given.dtype));
    view_.data = scratch_->as<void>();
  }
  const View& source() {
    if (scratch_) cpu().copy(given_, view_);
    return view_;
  }
  const View& target() const { return view_; }
  void finish() const {
    if (scratch_) cpu().copy(view_, given_);
  }

 private:
  View given_, view_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace

bool CpuBackend::softmax(const View& x, const View& mask, int axis, const View& y) {
  const Index n = x.shape[axis];
  if (y.size() == 0) return true;
  Rowwise from(x, axis), seen(mask, axis), to(y, axis);
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
  Rowwise from(y, axis), upstream(g, axis), to(dx, axis);
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
