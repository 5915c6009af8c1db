// Fill and copy: between any strides and any dtypes.
#include <cstring>
#include <limits>

#include "core/cpu/backend.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {
namespace {

template <class F>
void visit_any(Dtype t, const F& body) {
  if (t == Dtype::i64) return body.template operator()<int64_t>();
  if (t == Dtype::bf16) return body.template operator()<Bf16>();
  visit(t, body);
}

Bf16 rounded(float x) {
  Bf16 y;
  return pair_rows().round(&x, &y, 1), y;
}
float widened(Bf16 x) {
  float y;
  return pair_rows().widen(&x, &y, 1), y;
}

// A number outside the integers' range, or NaN, becomes the smallest one, which is no position in
// any dimension.
template <class Y, class X>
Y converted(X x) {
  if constexpr (std::is_same_v<X, Y>) return x;
  else if constexpr (std::is_same_v<X, Bf16>) return converted<Y>(widened(x));
  else if constexpr (std::is_same_v<Y, Bf16>) return rounded(static_cast<float>(x));
  else if constexpr (std::is_integral_v<Y> && std::is_floating_point_v<X>)
    return x >= X(-0x1p63) && x < X(0x1p63) ? static_cast<Y>(x) : std::numeric_limits<Y>::min();
  else return static_cast<Y>(x);
}

template <class X, class Y>
void copy_row(const X* x, Index sx, Y* y, Index sy, Index n) {
  if (sx == 1 && sy == 1) {
    if constexpr (std::is_same_v<X, Y>) {
      std::memcpy(y, x, static_cast<size_t>(n) * sizeof(X));
    } else if constexpr (std::is_same_v<X, float> && std::is_same_v<Y, Bf16>) {
      pair_rows().round(x, y, n);
    } else if constexpr (std::is_same_v<X, Bf16> && std::is_same_v<Y, float>) {
      pair_rows().widen(x, y, n);
    } else {
      for (Index i = 0; i < n; ++i) y[i] = converted<Y>(x[i]);
    }
  } else {
    for (Index i = 0; i < n; ++i) y[i * sy] = converted<Y>(x[i * sx]);
  }
}

// The dimension, other than the innermost, along which x has stride 1, if y has stride 1 along the
// innermost and x has not: the two are a matrix to transpose. -1 if there is none.
int transposed_dimension(const Loops<2>& loops) {
  if (loops.inner_stride(0) != 1 || loops.inner_stride(1) <= 1 || loops.inner() < 8) return -1;
  for (int d = 0; d + 1 < loops.shape.size(); ++d)
    if (loops.strides[1][d] == 1 && loops.shape[d] >= 8) return d;
  return -1;
}

// Copies through matrix tiles of dimension d and the innermost one.
template <class T>
void copy_transposed(Loops<2> loops, int d, const T* x, T* y) {
  constexpr Index side = 128;
  const Index columns = loops.shape[d], ry = loops.strides[0][d];
  const Index rows_count = loops.inner(), rx = loops.inner_stride(1);
  const double work = static_cast<double>(loops.size());
  loops.shape[d] = 1;  // the other dimensions count the matrices
  const Index matrices = loops.rows();
  const Index down = pieces_of(rows_count, side), right = pieces_of(columns, side);
  const auto transpose = rows<T>().transpose;
  parallel_for(matrices * down * right, work, [&](Index unit) {
    const RowCursor<2> at(loops, unit / (down * right));
    const Index i = unit / right % down * side, j = unit % right * side;
    transpose(x + at[1] + i * rx + j, rx, y + at[0] + j * ry + i, ry,
              std::min(side, rows_count - i), std::min(side, columns - j));
  });
}

template <class X, class Y>
void copy_elements(const View& x, const View& y) {
  const auto loops = collapse(loops_of<2>({&y, &x}), 0);
  if (loops.size() == 0) return;
  if constexpr (std::is_same_v<X, Y> && std::is_floating_point_v<X>) {
    const int d = transposed_dimension(loops);
    if (d >= 0) return copy_transposed(loops, d, x.as<X>(), y.as<Y>());
  }
  for_each_row(loops, 1, [&](auto& at, Index n, Index) {
    copy_row(x.as<X>() + at[1], loops.inner_stride(1), y.as<Y>() + at[0], loops.inner_stride(0), n);
  });
}

}  // namespace

void CpuBackend::fill(double value, const View& y) {
  visit_any(y.dtype, [&]<class T>() {
    const auto loops = collapse(loops_of<1>({&y}), 0);
    const Index stride = loops.inner_stride(0);
    const T number = converted<T>(value);
    for_each_row(loops, 1, [&](auto& at, Index n, Index) {
      T* to = y.as<T>() + at[0];
      for (Index i = 0; i < n; ++i) to[i * stride] = number;
    });
  });
}

void CpuBackend::copy(const View& x, const View& y) {
  visit_any(x.dtype,
            [&]<class X>() { visit_any(y.dtype, [&]<class Y>() { copy_elements<X, Y>(x, y); }); });
}

}  // namespace tete::cpu_kernels
