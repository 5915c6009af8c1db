// Rows of a parameter's update.
#include "core/cpu/lanes.hpp"
#include "core/cpu/number.hpp"
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace tete::cpu_kernels::TETE_ISA {
namespace {

template <class T, class SG, class SM, class SV>
TETE_INLINE void adam_loop(const AdamRow<T>& r, SG sg, SM sm, SV sv, T* __restrict y,
                           T* __restrict m_to, T* __restrict v_to) {
  const AdamNumbers<T>& s = r.numbers;
  for (Index i = 0; i < r.n; ++i) {
    const T g = r.g[i * sg];
    const T m = r.m[i * sm] * s.beta1 + g * s.other1, v = r.v[i * sv] * s.beta2 + g * g * s.other2;
    m_to[i] = m, v_to[i] = v;
    y[i] = r.p[i] * s.keep - s.rate * m / (sqrt(v) * s.unit + s.epsilon);
  }
}
template <class T>
void adam_row(const AdamRow<T>& r) {
  const Fixed<1> one;
  if (r.sg == 1 && r.sm == 1 && r.sv == 1)
    return adam_loop<T>(r, one, one, one, r.y, r.m_to, r.v_to);
  adam_loop<T>(r, r.sg, r.sm, r.sv, r.y, r.m_to, r.v_to);
}

// The sums of a row run over the lanes of one long register, whatever the registers are.
template <class T>
inline constexpr int few = 64 / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int registers = few<T> / width<T>;
// Memory is read faster in several places at once: this many rows, if there are registers for it.
template <class T, int most>
inline constexpr int together =
    register_count / 2 / registers<T> < most ? register_count / 2 / registers<T> : most;
// Prefetches a place some rows further on, which will soon be read. It need not exist.
template <class T>
TETE_INLINE void fetch(const T* x) {
  __builtin_prefetch(x, 0, 2);
}

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

// total += Σ u², row by row, over `count` rows; whole(r, i) gives the register of u in row r from
// place i on.
template <class T, int count, class Whole, class One>
TETE_INLINE void add_squares(Index first, Index n, const Whole& whole, const One& one,
                             double& total) {
  SquareSum<T> row[count];
  Index i = 0;
  for (; i + few<T> <= n; i += few<T>) {
#pragma GCC unroll 8
    for (int r = 0; r < count; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < registers<T>; ++c) row[r].add(c, whole(first + r, i + c * width<T>));
    }
  }
  for (int r = 0; r < count; ++r) {
    if (i < n) row[r].add_part(n - i, [&](Index k) { return one(first + r, i + k); });
    total += row[r].sum();
  }
}
template <class T, int count, class Whole, class One>
TETE_INLINE double squares_of(Index rows, Index n, const Whole& whole, const One& one) {
  double total = 0;
  Index r = 0;
  for (; r + count <= rows; r += count) add_squares<T, count>(r, n, whole, one, total);
  for (; r < rows; ++r) add_squares<T, 1>(r, n, whole, one, total);
  return total;
}
// The same for strides other than 1.
template <class T, class One>
TETE_INLINE double squares_of_places(Index rows, Index n, const One& one) {
  double total = 0;
  for (Index r = 0; r < rows; ++r) {
    SquareSum<T> row;
    for (Index i = 0; i < n; i += few<T>)
      row.add_part(n - i < few<T> ? n - i : few<T>, [&](Index k) { return one(r, i + k); });
    total += row.sum();
  }
  return total;
}

// use(sa, sb) with strides that the compiler knows.
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
  if (p.sg != 1 || p.sa > 1 || p.sb > 1) return squares_of_places<T>(p.rows, p.n, one);
  constexpr int count = together<T, 4>;
  return with_factors(p.sa, p.sb, [&](auto sa, auto sb) {
    const auto whole = [&](Index r, Index i) {
      const T* const g = p.g + r * p.rg + i;
      fetch(g + count * p.rg);
      return load(g) * factor(p.a + r * p.ra, sa, i) * factor(p.b + r * p.rb, sb, i);
    };
    return squares_of<T, count>(p.rows, p.n, whole, one);
  });
}

// Writes past the caches, for results that are not read soon: memory is not read before the write.
#if defined(__AVX512F__)
TETE_INLINE void stream(float* y, const Register<float>& x) {
  _mm512_stream_ps(y, __builtin_bit_cast(__m512, x));
}
TETE_INLINE void stream(double* y, const Register<double>& x) {
  _mm512_stream_pd(y, __builtin_bit_cast(__m512d, x));
}
TETE_INLINE void end_of_stream() { _mm_sfence(); }
#else
template <class T>
TETE_INLINE void stream(T* y, const Register<T>& x) {
  store<T>(y, x);
}
TETE_INLINE void end_of_stream() {}
#endif

template <class T>
double minus_product(const ProductRows<T>& p, const T* from, T rate, T* to, bool past_caches) {
  const auto one = [&](Index r, Index i) {
    const Index at = r * p.rg + i;
    return to[at] =
               from[at] - rate * (p.g[at] * p.a[r * p.ra + i * p.sa] * p.b[r * p.rb + i * p.sb]);
  };
  if (p.sa > 1 || p.sb > 1) return squares_of_places<T>(p.rows, p.n, one);
  constexpr int count = together<T, 2>;
  const bool aligned = reinterpret_cast<uintptr_t>(to) % register_bytes == 0 &&
                       (p.rows == 1 || p.rg % width<T> == 0);
  const auto written = [&](const auto& write) {
    return with_factors(p.sa, p.sb, [&](auto sa, auto sb) {
      const auto whole = [&](Index r, Index i) {
        const Index at = r * p.rg + i;
        fetch(p.g + at + count * p.rg), fetch(from + at + count * p.rg);
        const Register<T> y =
            load(from + at) -
            rate * (load(p.g + at) * factor(p.a + r * p.ra, sa, i) * factor(p.b + r * p.rb, sb, i));
        write(to + at, y);
        return y;
      };
      return squares_of<T, count>(p.rows, p.n, whole, one);
    });
  };
  if (!past_caches || !aligned)
    return written([](T* at, const Register<T>& y) { store<T>(at, y); });
  const double sum = written([](T* at, const Register<T>& y) { stream(at, y); });
  end_of_stream();
  return sum;
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
  if (sx != 1) return squares_of_places<double>(rows, n, one);
  constexpr int count = together<double, 4>;
  const auto whole = [=](Index r, Index i) {
    fetch(x + (r + count) * rx + i);
    return widened(x + r * rx + i);
  };
  return squares_of<double, count>(rows, n, whole, one);
}

// `across` is read and written once for all rows that are taken together.
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
  constexpr int count = together<T, 8>;
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
