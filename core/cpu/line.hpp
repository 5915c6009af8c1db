// A row with stride 1, as row kernels need it. A row that has stride 1 is not copied.
#pragma once
#include <vector>

#include "core/shape.hpp"

namespace tete::cpu_kernels {

template <class T>
class Line {
 public:
  // x[0 … n-1] for reading.
  const T* source(const T* x, Index stride, Index n) {
    if (stride == 1) return x;
    T* const line = target(nullptr, stride, n);
    for (Index i = 0; i < n; ++i) line[i] = x[i * stride];
    return line;
  }
  // Memory to write y[0 … n-1] to; finish() copies it to y.
  T* target(T* y, Index stride, Index n) {
    if (stride == 1) return y;
    elements_.resize(static_cast<size_t>(n));
    return elements_.data();
  }
  void finish(T* y, Index stride, Index n) const {
    if (stride == 1) return;
    for (Index i = 0; i < n; ++i) y[i * stride] = elements_[static_cast<size_t>(i)];
  }

 private:
  std::vector<T> elements_;
};

}  // namespace tete::cpu_kernels
