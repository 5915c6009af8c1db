// Rows of softmax and cross-entropy. The largest element is subtracted first, so nothing
// overflows; hidden elements are ignored, so a NaN there poisons nothing.
#include "core/cpu/lanes.hpp"

namespace tete::cpu_kernels::TETE_ISA {
namespace {

// max over i < n of term(i), in fixed lanes. A NaN is passed over; exp brings it back.
template <class T, class Term>
TETE_INLINE T max_of(Index n, const Term& term) {
  constexpr int count = lanes<T>;
  T lane[count];
  for (int l = 0; l < count; ++l) lane[l] = -__builtin_inf();
  Index i = 0;
  for (; i + count <= n; i += count)
    for (int l = 0; l < count; ++l) {
      const T v = term(i + l);
      lane[l] = v > lane[l] ? v : lane[l];
    }
  for (; i < n; ++i) {
    const T v = term(i);
    lane[0] = v > lane[0] ? v : lane[0];
  }
  for (int half = count / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l];
  return lane[0];
}

template <class T>
bool hidden_everywhere(const T* mask, Index n) {
  int seen = 0;
  for (Index i = 0; i < n; ++i) seen |= mask[i] != 0;
  return !seen;
}

template <class T>
void softmax_row(const T* x, const T* mask, T* y, Index n) {
  const T hidden = -__builtin_inf();
  T most;
  if (mask) {
    most = max_of<T>(n, [=](Index i) { return mask[i] != 0 ? x[i] : hidden; });
    if (most == hidden && hidden_everywhere(mask, n)) {
      for (Index i = 0; i < n; ++i) y[i] = 0;
      return;
    }
    for (Index i = 0; i < n; ++i) {
      const T e = exp(x[i] - most);
      y[i] = mask[i] != 0 ? e : T(0);
    }
  } else {
    most = max_of<T>(n, [=](Index i) { return x[i]; });
    for (Index i = 0; i < n; ++i) y[i] = exp(x[i] - most);
  }
  const T scale = T(1) / dense_sum(y, n);
  for (Index i = 0; i < n; ++i) y[i] *= scale;
}

template <class T>
void softmax_gradient_row(const T* y, const T* g, T* dx, Index n) {
  const T inner = dense_dot(y, g, n);
  for (Index i = 0; i < n; ++i) dx[i] = y[i] * (g[i] - inner);
}

template <class T>
T logsumexp_row(const T* x, Index n) {
  constexpr Index block = 512;
  T e[block];
  const T most = max_of<T>(n, [=](Index i) { return x[i]; });
  T sum = 0;
  for (Index at = 0; at < n; at += block) {
    const Index count = n - at < block ? n - at : block;
    for (Index i = 0; i < count; ++i) e[i] = exp(x[at + i] - most);
    sum += dense_sum(e, count);
  }
  return log(sum) + most;
}

template <class T>
void cross_entropy_gradient_row(const T* x, T lse, T g, Index target, T* y, Index n) {
  for (Index i = 0; i < n; ++i) y[i] = g * exp(x[i] - lse);
  y[target] -= g;
}

template <class T>
void fill(Rows<T>& rows) {
  rows.softmax = softmax_row<T>;
  rows.softmax_gradient = softmax_gradient_row<T>;
  rows.logsumexp = logsumexp_row<T>;
  rows.cross_entropy_gradient = cross_entropy_gradient_row<T>;
}

}  // namespace

void fill_softmax(Table& table) { fill(table.floats), fill(table.doubles); }

}  // namespace tete::cpu_kernels::TETE_ISA
