// Rows of a parameter's update.
#include "core/cpu/lanes.hpp"
#include "core/cpu/number.hpp"

namespace tete::cpu_kernels::TETE_ISA {
namespace {

template <class T, class SG>
TETE_INLINE void adam_loop(const AdamNumbers<T>& s, T* __restrict p, const T* gs, SG sg,
                           T* __restrict ms, T* __restrict vs, Index n) {
  for (Index i = 0; i < n; ++i) {
    const T g = gs[i * sg];
    const T m = ms[i] * s.beta1 + g * s.other1, v = vs[i] * s.beta2 + g * g * s.other2;
    ms[i] = m, vs[i] = v;
    p[i] = p[i] * s.keep - s.rate * m / (sqrt(v) * s.unit + s.epsilon);
  }
}
template <class T>
void adam_row(const AdamNumbers<T>& s, T* p, const T* g, Index sg, T* m, T* v, Index n) {
  if (sg == 1) adam_loop<T>(s, p, g, Fixed<1>(), m, v, n);
  else adam_loop<T>(s, p, g, sg, m, v, n);
}

// The sums of a row run over the lanes of one long register, whatever the registers are.
template <class T>
inline constexpr int few = 64 / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int registers = few<T> / width<T>;

// A row's sum of squares. All is added in whole registers, so that the compiler rounds a square and
// the sum after it in the same way in every kernel.
template <class T>
struct SquareSum {
  Register<T> lane[registers<T>] = {};

  TETE_MEMBER void add(int c, const Register<T>& u) { lane[c] += u * u; }
  // u(k) for k < n <= few; zeros do not count.
  template <class One>
  TETE_MEMBER void add_part(Index n, const One& u) {
    T part[few<T>] = {};
    for (Index k = 0; k < n; ++k) part[k] = u(k);
    for (int c = 0; c < registers<T>; ++c) add(c, load(part + c * width<T>));
  }
  TETE_MEMBER double sum() const {
    T all[few<T>];
    for (int c = 0; c < registers<T>; ++c) store<T>(all + c * width<T>, lane[c]);
    return static_cast<double>(sum_of_lanes(all, few<T>));
  }
};

// Σ u², row by row. whole(r, i) gives the register of u in row r from place i on, if rows are
// `dense`; one(r, i) a single u.
template <class T, class Whole, class One>
TETE_INLINE double squares_of(Index rows, Index n, bool dense, const Whole& whole, const One& one) {
  double total = 0;
  for (Index r = 0; r < rows; ++r) {
    SquareSum<T> row;
    Index i = 0;
    for (; dense && i + few<T> <= n; i += few<T>) {
#pragma GCC unroll 4
      for (int c = 0; c < registers<T>; ++c) row.add(c, whole(r, i + c * width<T>));
    }
    for (; i < n; i += few<T>)
      row.add_part(n - i < few<T> ? n - i : few<T>, [&](Index k) { return one(r, i + k); });
    total += row.sum();
  }
  return total;
}

// Prefetches the place two rows on, which need not exist: memory is read faster in several places.
template <class T>
TETE_INLINE void fetch(const T* x, Index row) {
  __builtin_prefetch(x + 2 * row, 0, 2);
}

// use(sa, sb) with strides of 0 or 1 that the compiler knows.
template <class Use>
TETE_INLINE double with_factors(Index sa, Index sb, const Use& use) {
  const Fixed<0> none;
  const Fixed<1> one;
  if (sa == 0) return sb == 0 ? use(none, none) : use(none, one);
  return sb == 0 ? use(one, none) : use(one, one);
}

template <class T>
double product_squares(const ProductRows<T>& p) {
  const auto one = [&](Index r, Index i) {
    return p.g[r * p.rg + i * p.sg] * p.a[r * p.ra + i * p.sa] * p.b[r * p.rb + i * p.sb];
  };
  const bool dense = p.sg == 1 && p.sa <= 1 && p.sb <= 1;
  return with_factors(p.sa, p.sb, [&](auto sa, auto sb) {
    const auto whole = [&](Index r, Index i) {
      const T* const g = p.g + r * p.rg + i;
      fetch(g, p.rg);
      return load(g) * factor(p.a + r * p.ra, sa, i) * factor(p.b + r * p.rb, sb, i);
    };
    return squares_of<T>(p.rows, p.n, dense, whole, one);
  });
}

template <class T>
double minus_product(const ProductRows<T>& p, const T* from, T rate, T* to) {
  const auto one = [&](Index r, Index i) {
    const Index at = r * p.rg + i;
    return to[at] =
               from[at] - rate * (p.g[at] * p.a[r * p.ra + i * p.sa] * p.b[r * p.rb + i * p.sb]);
  };
  return with_factors(p.sa, p.sb, [&](auto sa, auto sb) {
    const auto whole = [&](Index r, Index i) {
      const Index at = r * p.rg + i;
      fetch(p.g + at, p.rg), fetch(from + at, p.rg);
      const Register<T> y =
          load(from + at) -
          rate * (load(p.g + at) * factor(p.a + r * p.ra, sa, i) * factor(p.b + r * p.rb, sb, i));
      store<T>(to + at, y);
      return y;
    };
    return squares_of<T>(p.rows, p.n, p.sa <= 1 && p.sb <= 1, whole, one);
  });
}

// As many floats as a register of doubles has lanes, widened to doubles.
typedef float HalfRegister __attribute__((vector_size(register_bytes / 2), aligned(4), may_alias));
TETE_INLINE DoubleRegister widened(const float* x) {
  return __builtin_convertvector(*reinterpret_cast<const HalfRegister*>(x), DoubleRegister);
}
TETE_INLINE DoubleRegister widened(const double* x) { return load(x); }

template <class T>
double squares(const T* x, Index rx, Index sx, Index rows, Index n) {
  const auto one = [=](Index r, Index i) { return static_cast<double>(x[r * rx + i * sx]); };
  const auto whole = [=](Index r, Index i) {
    fetch(x + r * rx + i, rx);
    return widened(x + r * rx + i);
  };
  return squares_of<double>(rows, n, sx == 1, whole, one);
}

// `across` is read and written once for `count` rows.
template <class T, int count>
TETE_INLINE void square_rows(const T* g, Index rg, Index n, T* along, Index sa,
                             T* __restrict across) {
  Register<T> sum[count][registers<T>] = {};
  Index j = 0;
  for (; j + few<T> <= n; j += few<T>) {
#pragma GCC unroll 4
    for (int c = 0; c < registers<T>; ++c) {
      T* const to = across + j + c * width<T>;
      Register<T> down = load(to);
#pragma GCC unroll 8
      for (int r = 0; r < count; ++r) {
        const Register<T> x = load(g + r * rg + j + c * width<T>);
        sum[r][c] += x * x;
        down += x * x;
      }
      store<T>(to, down);
    }
  }
  for (int r = 0; r < count; ++r) {
    T lane[few<T>];
    for (int c = 0; c < registers<T>; ++c) store<T>(lane + c * width<T>, sum[r][c]);
    for (Index i = j; i < n; ++i) {
      const T x = g[r * rg + i];
      lane[i - j] += x * x;
      across[i] += x * x;
    }
    along[r * sa] = sum_of_lanes(lane, few<T>);
  }
}
template <class T>
void squares_both_ways(const T* g, Index rg, Index rows, Index n, T* along, Index sa, T* across) {
  constexpr int most = register_count / 2 / registers<T>, count = most < 8 ? most : 8;
  Index r = 0;
  for (; r + count <= rows; r += count)
    square_rows<T, count>(g + r * rg, rg, n, along + r * sa, sa, across);
  for (; r < rows; ++r) square_rows<T, 1>(g + r * rg, rg, n, along + r * sa, sa, across);
}

template <class T>
void fill(Rows<T>& rows) {
  rows.adam = adam_row<T>;
  rows.product_squares = product_squares<T>;
  rows.minus_product = minus_product<T>;
  rows.squares = squares<T>;
  rows.squares_both_ways = squares_both_ways<T>;
}

}  // namespace

void fill_update(Table& table) { fill(table.floats), fill(table.doubles); }

}  // namespace tete::cpu_kernels::TETE_ISA
