// Gradient norms. Blocks of fixed size, added in their order: the same bits for any thread count.
#include "train/clip.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops.hpp"
#include "core/threads.hpp"

namespace tete {

namespace {

constexpr Index block_size = 16384;

template <class T>
double block_squares(const T* x, Index count) {
  double sums[8] = {};  // eight chains, so that the processor need not wait for each addition
  Index i = 0;
  for (; i + 8 <= count; i += 8)
    for (int k = 0; k < 8; ++k) sums[k] += static_cast<double>(x[i + k]) * x[i + k];
  for (; i < count; ++i) sums[0] += static_cast<double>(x[i]) * x[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

bool is_dense(const Tensor& x) {
  return x.strides() == dense_strides(x.shape(), memory_order(x.shape(), x.strides()));
}

}  // namespace

double sum_of_squares(const Tensor& x) {
  if (!is_dense(x)) {
    Tensor dense = Tensor::empty(x.shape(), x.dtype());
    dense.backend().copy(x.view(), dense.view());
    return sum_of_squares(dense);
  }
  const Index count = x.size(), blocks = (count + block_size - 1) / block_size;
  std::vector<double> sums(blocks);
  visit(x.dtype(), [&]<class T>() {
    const T* data = x.view().as<T>();
    parallel_for(blocks, static_cast<double>(count), [&](Index b) {
      sums[b] = block_squares(data + b * block_size, std::min(block_size, count - b * block_size));
    });
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

double global_norm(const Tensors& tensors) {
  double total = 0;
  for (const Tensor& x : tensors)
    if (x) total += sum_of_squares(x);
  return std::sqrt(total);
}

double clip_factor(double norm, double limit) {
  return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
}

double clip_by_global_norm(Tensors& grads, double limit) {
  const double norm = global_norm(grads);
  const double factor = clip_factor(norm, limit);
  if (factor != 1.0)
    for (Tensor& g : grads)
      if (g) g = g * factor;
  return norm;
}

}  // namespace tete
