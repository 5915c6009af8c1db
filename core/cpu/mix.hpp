// Heads mixed by a small matrix: one row of each head at a time.
#pragma once
#include <algorithm>
#include <utility>

#include "core/cpu/lines.hpp"
#include "core/cpu/rows.hpp"

namespace tete::cpu_kernels {

// A small matrix, or none.
template <class T>
struct Mix {
  const T* data;
  Index row, column;

  explicit Mix(const View& P)
      : data(P.data ? P.as<T>() : nullptr),
        row(data ? P.strides[0] : 0),
        column(data ? P.strides[1] : 0) {}
  Mix transposed() const {
    Mix other = *this;
    return std::swap(other.row, other.column), other;
  }
};

template <class T>
void copy_lines(const Lines<const T>& x, Index heads, Index keys, const Lines<T>& y) {
  for (Index h = 0; h < heads; ++h) std::copy_n(x.data + h * x.step, keys, y.data + h * y.step);
}

// True if a row of so many heads is too long for the second-level cache to keep it beside others.
inline bool leaves_cache(Index heads, Index keys) { return heads * keys > 1 << 15; }

// y[k][j] = Σ_h P[h, k] x[h][j], or x[k][j] without P. Lines of x can be read up to a multiple of
// product_columns.
template <class T>
void mix(const Mix<T>& P, Index heads, Index out, const Lines<const T>& x, Index keys,
         const Lines<T>& y) {
  if (!P.data) return copy_lines(x, heads, keys, y);
  const Rows<T>& kernels = rows<T>();
  for (Index j = 0; j < keys; j += kernels.product_columns) {
    if (leaves_cache(heads, keys)) fetch(x, heads, j + far_ahead, kernels.product_columns);
    for (Index k = 0; k < out; k += kernels.product_rows)
      kernels.product(std::min(kernels.product_rows, out - k), heads, P.data + k * P.column,
                      P.column, P.row, x.data + j, x.step, y.data + k * y.step + j, y.step,
                      std::min(kernels.product_columns, keys - j), false);
  }
}

}  // namespace tete::cpu_kernels
