// A view in place, or a copy of it with other strides.
#pragma once
#include <memory>

#include "core/cpu/backend.hpp"

namespace tete::cpu_kernels {

class Relaid {
 public:
  // No copy is made if the given view has these strides already. Otherwise they are dense.
  Relaid(const View& given, const Strides& strides) : given_(given), view_(given) {
    if (strides == given.strides) return;
    view_.strides = strides;
    copy_ = std::make_unique<Scratch>(static_cast<size_t>(given.size()) * size_of(given.dtype));
    view_.data = copy_->as<void>();
  }
  // The view, for reading.
  const View& source() {
    if (copy_) cpu().copy(given_, view_);
    return view_;
  }
  // The view, for writing; finish() copies it to the given one.
  const View& target() const { return view_; }
  void finish() const {
    if (copy_) cpu().copy(view_, given_);
  }

 private:
  View given_, view_;
  std::unique_ptr<Scratch> copy_;
};

// With stride 1 along an axis: two transposes cost less than rows of far apart numbers.
inline Relaid rowwise(const View& given, int axis) {
  if (!given.data || given.strides[axis] == 1 || given.shape[axis] == 1)
    return {given, given.strides};
  Short<int> order = memory_order(given.shape, given.strides);
  order.erase(order.find(axis));
  order.push_back(axis);
  return {given, dense_strides(given.shape, order)};
}

}  // namespace tete::cpu_kernels
