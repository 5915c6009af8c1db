// Rows of sums: along a row, across rows, products of rows; and rows that become columns.
#include "core/cpu/lanes.hpp"

namespace tete::cpu_kernels::TETE_ISA {
namespace {

template <class T>
T sum_row(const T* x, Index sx, Index n) {
  if (sx == 1) return dense_sum(x, n);
  T lane[lanes<T>] = {};
  for (Index i = 0; i < n; ++i) lane[i % lanes<T>] += x[i * sx];
  return sum_of_lanes(lane, lanes<T>);
}

template <class T>
T dot_row(const T* a, Index sa, const T* b, Index sb, Index n) {
  if (sa == 1 && sb == 1) return dense_dot(a, b, n);
  T lane[lanes<T>] = {};
  for (Index i = 0; i < n; ++i) lane[i % lanes<T>] += a[i * sa] * b[i * sb];
  return sum_of_lanes(lane, lanes<T>);
}

template <class T>
void dots(const T* a, Index ra, const T* b, Index rb, Index rows, Index n, T* y, Index ry) {
  for (Index r = 0; r < rows; ++r, a += ra, b += rb, y += ry) *y = dense_dot(a, b, n);
}

// The larger one, of numbers or of each lane, in whichever order they come: a NaN wins, and 0 over
// -0.
template <class V>
TETE_INLINE V larger(V a, V b) {
  const auto of_both = __builtin_bit_cast(BitsOf<V>, a) & __builtin_bit_cast(BitsOf<V>, b);
  const V other = a == b ? __builtin_bit_cast(V, of_both) : b;
  return ((a > b) | (a != a)) ? a : other;
}

template <class T>
T max_row(const T* x, Index sx, Index n) {
  const T none = -__builtin_inf();
  if (sx == 1)
    return joined_terms<T>(
        n, none, [](auto a, auto b) { return larger(a, b); }, [=](Index i) { return load(x + i); },
        [=](Index i) { return x[i]; });
  T most = none;
  for (Index i = 0; i < n; ++i) most = larger(most, x[i * sx]);
  return most;
}

// total_j += Σ_r of the terms: columns in registers, rows one after the other. `whole(r, j)` gives
// the register of terms j, j+1, … of row r.
template <class T, class Whole, class Term>
TETE_INLINE void across(Index rows, Index n, T* total, const Whole& whole, const Term& term) {
  constexpr int registers = 4, block = registers * width<T>;
  Index j = 0;
  for (; j + block <= n; j += block) {
    Register<T> sum[registers];
    for (int c = 0; c < registers; ++c) sum[c] = load(total + j + c * width<T>);
    for (Index r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < registers; ++c) sum[c] += whole(r, j + c * width<T>);
    }
    for (int c = 0; c < registers; ++c) store<T>(total + j + c * width<T>, sum[c]);
  }
  for (Index r = 0; r < rows; ++r)
    for (Index i = j; i < n; ++i) total[i] += term(r, i);
}

template <class T>
void sum_across(const T* x, Index rx, Index sx, Index rows, Index n, T* __restrict total) {
  const auto term = [=](Index r, Index j) { return x[r * rx + j * sx]; };
  if (sx == 1)
    return across(
        rows, n, total, [=](Index r, Index j) { return load(x + r * rx + j); }, term);
  for (Index r = 0; r < rows; ++r)
    for (Index j = 0; j < n; ++j) total[j] += term(r, j);
}

// total_j += Σ_r a[r·ra] b[r·rb + j]: a vector times a matrix. Several rows at a time, each of
// which is read to its end: memory gives most when it is read in its order, and totals stay in the
// cache.
template <class T>
void vector_across(const T* a, Index ra, const T* b, Index rb, Index rows, Index n,
                   T* __restrict total) {
  constexpr int together = 8;
  Index r = 0;
  for (; r + together <= rows; r += together, a += together * ra, b += together * rb) {
    Index j = 0;
    for (; j + width<T> <= n; j += width<T>) {
      Register<T> sum = load(total + j);
#pragma GCC unroll 8
      for (int i = 0; i < together; ++i) sum += all_lanes(a[i * ra]) * load(b + i * rb + j);
      store<T>(total + j, sum);
    }
    for (; j < n; ++j)
      for (int i = 0; i < together; ++i) total[j] += a[i * ra] * b[i * rb + j];
  }
  for (; r < rows; ++r, a += ra, b += rb)
    for (Index j = 0; j < n; ++j) total[j] += *a * b[j];
}

template <class T>
void dot_across(const T* a, Index ra, Index sa, const T* b, Index rb, Index sb, Index rows, Index n,
                T* __restrict total) {
  const auto term = [=](Index r, Index j) { return a[r * ra + j * sa] * b[r * rb + j * sb]; };
  const auto in_registers = [=](auto sa, auto sb) {
    across(
        rows, n, total,
        [=](Index r, Index j) { return factor(a + r * ra, sa, j) * factor(b + r * rb, sb, j); },
        term);
  };
  const Fixed<1> one;
  if (sa == 1 && sb == 1) return in_registers(one, one);
  if (sa == 0 && sb == 1) return vector_across(a, ra, b, rb, rows, n, total);
  if (sa == 1 && sb == 0) return vector_across(b, rb, a, ra, rows, n, total);
  for (Index r = 0; r < rows; ++r)
    for (Index j = 0; j < n; ++j) total[j] += term(r, j);
}

template <class T>
void max_across(const T* x, Index rx, Index sx, Index rows, Index n, T* __restrict total) {
  for (Index r = 0; r < rows; ++r) {
    if (sx == 1)
      for (Index j = 0; j < n; ++j) total[j] = larger(total[j], x[r * rx + j]);
    else
      for (Index j = 0; j < n; ++j) total[j] = larger(total[j], x[r * rx + j * sx]);
  }
}

// a0 b0 a1 b1 …, of the first halves of two registers and of the second.
template <class T>
TETE_INLINE void zip(Register<T> a, Register<T> b, Register<T>& low, Register<T>& high) {
#define TETE_SHUFFLED(...) __builtin_shufflevector(a, b, __VA_ARGS__)
  if constexpr (width<T> == 2) {
    low = TETE_SHUFFLED(0, 2), high = TETE_SHUFFLED(1, 3);
  } else if constexpr (width<T> == 4) {
    low = TETE_SHUFFLED(0, 4, 1, 5), high = TETE_SHUFFLED(2, 6, 3, 7);
  } else if constexpr (width<T> == 8) {
    low = TETE_SHUFFLED(0, 8, 1, 9, 2, 10, 3, 11), high = TETE_SHUFFLED(4, 12, 5, 13, 6, 14, 7, 15);
  } else {
    low = TETE_SHUFFLED(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    high = TETE_SHUFFLED(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
#undef TETE_SHUFFLED
}

// A square of registers is transposed by zipping lines i and i + half, log2(side) times.
template <class T>
void transpose_square(const T* x, Index rx, T* __restrict y, Index ry) {
  constexpr int side = width<T>;
  Register<T> line[side], zipped[side];
  for (int i = 0; i < side; ++i) line[i] = load(x + i * rx);
#pragma GCC unroll 4
  for (int step = 1; step < side; step *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < side / 2; ++i)
      zip<T>(line[i], line[i + side / 2], zipped[2 * i], zipped[2 * i + 1]);
#pragma GCC unroll 16
    for (int i = 0; i < side; ++i) line[i] = zipped[i];
  }
  for (int j = 0; j < side; ++j) store<T>(y + j * ry, line[j]);
}

// Transposes in tiles that fit the first-level cache, so that every cache line is used whole.
template <class T>
void transpose(const T* x, Index rx, T* __restrict y, Index ry, Index rows, Index columns) {
  constexpr Index side = width<T>;
  for (Index i = 0; i < rows; i += side)
    for (Index j = 0; j < columns; j += side) {
      const Index height = rows - i < side ? rows - i : side;
      const Index breadth = columns - j < side ? columns - j : side;
      if (height == side && breadth == side) {
        transpose_square(x + i * rx + j, rx, y + j * ry + i, ry);
        continue;
      }
      for (Index c = 0; c < breadth; ++c)
        for (Index r = 0; r < height; ++r) y[(j + c) * ry + i + r] = x[(i + r) * rx + j + c];
    }
}

template <class T>
void fill(Rows<T>& rows) {
  rows.sum = sum_row<T>;
  rows.max = max_row<T>;
  rows.dot = dot_row<T>;
  rows.dots = dots<T>;
  rows.sum_across = sum_across<T>;
  rows.max_across = max_across<T>;
  rows.dot_across = dot_across<T>;
  rows.transpose = transpose<T>;
}

}  // namespace

void fill_sums(Table& table) { fill(table.floats), fill(table.doubles); }

}  // namespace tete::cpu_kernels::TETE_ISA
