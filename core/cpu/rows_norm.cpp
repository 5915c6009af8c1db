// Rows of layer norm and RMS norm. h = (x - μ)/√(σ² + ε), y = scale·h + bias.
// dx = (q - mean q - h mean(q h))/√(σ² + ε), q = scale·g; RMS norm has no μ, so no mean q.
#include "core/cpu/lanes.hpp"

namespace tete::cpu_kernels::TETE_ISA {
namespace {

template <class T>
void norm_row(const T* x, const T* scale, const T* bias, bool center, T epsilon, T* __restrict y,
              T* stats, Index n) {
  const T mean = center ? dense_sum(x, n) / static_cast<T>(n) : 0;
  const T square = lane_sum<T>(
      n,
      [=](Index i) {
        const Register<T> d = load(x + i) - mean;
        return d * d;
      },
      [=](Index i) { return (x[i] - mean) * (x[i] - mean); });
  const T inverse = T(1) / sqrt(square / static_cast<T>(n) + epsilon);
  stats[0] = mean;
  stats[1] = inverse;
  if (bias)
    for (Index i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
  else
    for (Index i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i];
}

template <class T>
void norm_gradient_row(const T* x, const T* scale, const T* g, const T* stats, bool center,
                       T* __restrict dx, T* __restrict dscale, T* __restrict dbias, Index n) {
  const T mean = stats[0], inverse = stats[1];
  const T mean_q = center ? dense_dot(scale, g, n) / static_cast<T>(n) : 0;
  const T mean_qh =
      inverse *
      lane_sum<T>(
          n, [=](Index i) { return load(scale + i) * load(g + i) * (load(x + i) - mean); },
          [=](Index i) { return scale[i] * g[i] * (x[i] - mean); }) /
      static_cast<T>(n);
  for (Index i = 0; i < n; ++i) {
    const T h = (x[i] - mean) * inverse;
    dx[i] = inverse * (scale[i] * g[i] - mean_q - h * mean_qh);
    dscale[i] += g[i] * h;
  }
  if (dbias)
    for (Index i = 0; i < n; ++i) dbias[i] += g[i];
}

template <class T>
void fill(Rows<T>& rows) {
  rows.norm = norm_row<T>;
  rows.norm_gradient = norm_gradient_row<T>;
}

}  // namespace

void fill_norm(Table& table) { fill(table.floats), fill(table.doubles); }

}  // namespace tete::cpu_kernels::TETE_ISA
