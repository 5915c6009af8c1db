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

// True if a row of so many heads is too long for a second-level cache of 512 KiB to keep it beside
// three others of f32.
inline bool leaves_cache(Index heads, Index keys) { return heads * keys > 1 << 15; }

// y[k][j] = Σ_h P[h, k] x[h][j], or x[k][j] without P. Lines of x can be read up to a multiple of
// product_columns.
template <class T>
void mix(const Mix<T>& P, Index heads, Index out, const Lines<const T>& x, Index keys,
         const Lines<T>& y) {
  if (!P.data) return copy_lines(x, heads, keys, y);
  const Rows<T>& kernels = rows<T>();
  const Index high = pieces_of(out, pieces_of(out, kernels.product_rows));  // strips about as high
  constexpr Index columns = 64;  // some tiles, whose numbers stay in the first-level cache
  for (Index j = 0; j < keys; j += columns)
    for (Index k = 0; k < out; k += high) {
      // Before each strip, some lines: a processor that has asked for as many as it can waits.
      if (leaves_cache(heads, keys))
        fetch(x.from_row(k), k + high < out ? std::min(high, heads - k) : heads - k, j + far_ahead,
              columns);
      kernels.product(std::min(high, out - k), heads, P.data + k * P.column, P.column, P.row,
                      x.data + j, x.step, kernels.product_columns, y.data + k * y.step + j, y.step,
                      std::min(columns, keys - j), false);
    }
}

}  // namespace tete::cpu_kernels
