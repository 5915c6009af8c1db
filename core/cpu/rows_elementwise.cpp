// Rows of the elementwise operations, their gradients, and select.
#include "core/cpu/number.hpp"
#include "core/cpu/rows.hpp"

namespace tete::cpu_kernels::TETE_ISA {
namespace {

// One struct for each row of elementwise.def: the value as a function of numbers.
#define UNARY(name, value, gradient, low, high)                                \
  struct Value_##name {                                                        \
    template <class V>                                                         \
    TETE_MEMBER static V at(V x) {                                             \
      return value;                                                            \
    }                                                                          \
  };                                                                           \
  struct Slope_##name {                                                        \
    template <class V>                                                         \
    TETE_MEMBER static V at([[maybe_unused]] V x, [[maybe_unused]] V y, V g) { \
      return gradient;                                                         \
    }                                                                          \
  };
#define BINARY(name, value, gradient_a, gradient_b, low, high) \
  struct Value2_##name {                                       \
    template <class V>                                         \
    TETE_MEMBER static V at(V a, V b) {                        \
      return value;                                            \
    }                                                          \
  };
#include "core/elementwise.def"
#undef UNARY
#undef BINARY

template <class T, class Op, class SX, class SY>
TETE_INLINE void unary_loop(const T* x, SX sx, T* y, SY sy, Index n) {
  for (Index i = 0; i < n; ++i) y[i * sy] = Op::at(Number<T>(x[i * sx])).v;
}
template <class T, class Op>
void unary_row(const T* x, Index sx, T* __restrict y, Index sy, Index n) {
  const Fixed<1> one;
  if (sx == 1 && sy == 1) return unary_loop<T, Op>(x, one, y, one, n);
  unary_loop<T, Op>(x, sx, y, sy, n);
}

template <class T, class Op, class SX, class SY, class SG, class SD>
TETE_INLINE void gradient_loop(const T* x, SX sx, const T* y, SY sy, const T* g, SG sg,
                               T* __restrict dx, SD sdx, Index n) {
  using V = Number<T>;
  for (Index i = 0; i < n; ++i) dx[i * sdx] = Op::at(V(x[i * sx]), V(y[i * sy]), V(g[i * sg])).v;
}
template <class T, class Op>
void gradient_row(const T* x, Index sx, const T* y, Index sy, const T* g, Index sg,
                  T* __restrict dx, Index sdx, Index n) {
  const Fixed<1> one;
  if (sx == 1 && sy == 1 && sg == 1 && sdx == 1)
    return gradient_loop<T, Op>(x, one, y, one, g, one, dx, one, n);
  gradient_loop<T, Op>(x, sx, y, sy, g, sg, dx, sdx, n);
}

template <class T, class Op, class SA, class SB, class SY>
TETE_INLINE void binary_loop(const T* a, SA sa, const T* b, SB sb, T* __restrict y, SY sy,
                             Index n) {
  using V = Number<T>;
  for (Index i = 0; i < n; ++i) y[i * sy] = Op::at(V(a[i * sa]), V(b[i * sb])).v;
}
template <class T, class Op>
void binary_row(const T* a, Index sa, const T* b, Index sb, T* __restrict y, Index sy, Index n) {
  const Fixed<1> one;
  const Fixed<0> same;
  if (sy == 1) {
    if (sa == 1 && sb == 1) return binary_loop<T, Op>(a, one, b, one, y, one, n);
    if (sa == 1 && sb == 0) return binary_loop<T, Op>(a, one, b, same, y, one, n);
    if (sa == 0 && sb == 1) return binary_loop<T, Op>(a, same, b, one, y, one, n);
  }
  binary_loop<T, Op>(a, sa, b, sb, y, sy, n);
}

template <class Op>
struct OfSum {
  template <class V>
  TETE_MEMBER static V at(V a, V b) {
    return Op::at(a + b);
  }
};
// Not inlined: beside the loop over strides this one would not become vector code.
template <class T, class Op>
__attribute__((noinline)) void of_sum_gradient_dense(const T* a, const T* b, const T* y, const T* g,
                                                     T* __restrict dsum, Index n) {
  using V = Number<T>;
  for (Index i = 0; i < n; ++i) dsum[i] = Op::at(V(a[i]) + V(b[i]), V(y[i]), V(g[i])).v;
}
template <class T, class Op>
void of_sum_gradient_row(const T* a, Index sa, const T* b, Index sb, const T* y, Index sy,
                         const T* g, Index sg, T* __restrict dsum, Index sd, Index n) {
  using V = Number<T>;
  if (sa == 1 && sb == 1 && sy == 1 && sg == 1 && sd == 1)
    return of_sum_gradient_dense<T, Op>(a, b, y, g, dsum, n);
  for (Index i = 0; i < n; ++i)
    dsum[i * sd] = Op::at(V(a[i * sa]) + V(b[i * sb]), V(y[i * sy]), V(g[i * sg])).v;
}

template <class T, class SC, class SA, class SB, class SY>
TETE_INLINE void select_loop(const T* c, SC sc, const T* a, SA sa, const T* b, SB sb,
                             T* __restrict y, SY sy, Index n) {
  for (Index i = 0; i < n; ++i) {
    const T yes = a[i * sa], no = b[i * sb];
    y[i * sy] = c[i * sc] != 0 ? yes : no;
  }
}
template <class T>
void select_row(const T* c, Index sc, const T* a, Index sa, const T* b, Index sb, T* __restrict y,
                Index sy, Index n) {
  const Fixed<1> one;
  const Fixed<0> same;
  if (sc == 1 && sa == 1 && sy == 1) {
    if (sb == 1) return select_loop(c, one, a, one, b, one, y, one, n);
    if (sb == 0) return select_loop(c, one, a, one, b, same, y, one, n);
  }
  select_loop(c, sc, a, sa, b, sb, y, sy, n);
}

template <class T, class SX, class SC>
TETE_INLINE void turn_loop(const T* a, SX sa, const T* b, SX sb, const T* c, SC sc, const T* s,
                           SC ss, T* __restrict yb, SX syb, T* __restrict ya, SX sya, Index n) {
  for (Index i = 0; i < n; ++i) {
    const T x = a[i * sa], y = b[i * sb], cosine = c[i * sc], sine = s[i * ss];
    ya[i * sya] = x * cosine - y * sine;
    yb[i * syb] = x * sine + y * cosine;
  }
}
// Turns pairs of neighbours, of which `a` is the first or, turned back, the second.
template <class T, int first>
TETE_INLINE void turn_neighbours(const T* x, const T* c, const T* s, T* __restrict y, Index n) {
  for (Index i = 0; i < n; ++i) {
    const T a = x[2 * i + first], b = x[2 * i + 1 - first];
    y[2 * i + first] = a * c[i] - b * s[i];
    y[2 * i + 1 - first] = a * s[i] + b * c[i];
  }
}
template <class T>
void turn_row(const T* a, Index sa, const T* b, Index sb, const T* c, Index sc, const T* s,
              Index ss, T* yb, Index syb, T* ya, Index sya, Index n) {
  const auto have = [&](Index stride) {
    return sa == stride && sb == stride && sya == stride && syb == stride;
  };
  const Fixed<1> one;
  const Fixed<0> same;
  if (have(1) && sc == 1 && ss == 1)
    return turn_loop(a, one, b, one, c, one, s, one, yb, one, ya, one, n);
  if (have(1) && sc == 0 && ss == 0)
    return turn_loop(a, one, b, one, c, same, s, same, yb, one, ya, one, n);
  if (have(2) && sc == 1 && ss == 1) {
    if (b == a + 1 && yb == ya + 1) return turn_neighbours<T, 0>(a, c, s, ya, n);
    if (a == b + 1 && ya == yb + 1) return turn_neighbours<T, 1>(b, c, s, yb, n);
  }
  turn_loop(a, sa, b, sb, c, sc, s, ss, yb, syb, ya, sya, n);
}

template <class T>
void fill(Rows<T>& rows) {
  int unary = 0, binary = 0;
#define UNARY(name, ...)                                                    \
  rows.unary[unary] = unary_row<T, Value_##name>;                           \
  rows.unary_gradient[unary] = gradient_row<T, Slope_##name>;               \
  rows.unary_of_sum[unary] = binary_row<T, OfSum<Value_##name>>;            \
  rows.unary_of_sum_gradient[unary] = of_sum_gradient_row<T, Slope_##name>; \
  ++unary;
#define BINARY(name, ...) rows.binary[binary++] = binary_row<T, Value2_##name>;
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  rows.select = select_row<T>, rows.turn = turn_row<T>;
}

}  // namespace

void fill_elementwise(Table& table) { fill(table.floats), fill(table.doubles); }

}  // namespace tete::cpu_kernels::TETE_ISA
