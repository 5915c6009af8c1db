// The numbers that the rows of elementwise.def are read with, and their functions.
//
// For float the functions are our own: branch-free, so that loops over them become vector code,
// and the same on every machine. Each says its largest error in units of the last place (ulp),
// measured over its whole range (tests/cpu.cpp). For double they are the C library's.
#pragma once
#include <cstdint>

#include "core/gelu.hpp"

#define TETE_MEMBER inline __attribute__((always_inline))
#define TETE_INLINE static TETE_MEMBER

namespace tete::cpu_kernels::TETE_ISA {

// A stride that may be known to the compiler: known strides make vector code.
template <int64_t known>
struct Fixed {
  TETE_MEMBER constexpr operator int64_t() const { return known; }
};

TETE_INLINE float as_float(int32_t bits) { return __builtin_bit_cast(float, bits); }
TETE_INLINE int32_t as_bits(float x) { return __builtin_bit_cast(int32_t, x); }
TETE_INLINE float absolute(float x) { return as_float(as_bits(x) & 0x7FFFFFFF); }
TETE_INLINE double absolute(double x) { return __builtin_fabs(x); }
// |magnitude| with the sign of `sign`.
TETE_INLINE float with_sign(float magnitude, float sign) {
  return as_float((as_bits(magnitude) & 0x7FFFFFFF) | (as_bits(sign) & INT32_MIN));
}
TETE_INLINE float infinity() { return __builtin_inff(); }

// The bits of a float, or of each float in a register.
template <class V>
struct Bits {
  typedef uint32_t type __attribute__((vector_size(sizeof(V))));
};
template <>
struct Bits<float> {
  using type = uint32_t;
};
template <class V>
using BitsOf = typename Bits<V>::type;

// a[0] + a[1] z + a[2] z² + …
template <int n, class V>
TETE_INLINE V polynomial(const float (&a)[n], V z) {
  V sum = V{} + a[n - 1];
#pragma GCC unroll 16
  for (int i = n - 2; i >= 0; --i) sum = sum * z + a[i];
  return sum;
}

// A sum with it, 1.5·2^23, leaves an integer in its last bits.
inline constexpr float round_up = 12582912.0f;

// exp r of x = k ln 2 + r, |r| <= ln 2 / 2; `shifted` becomes round_up + k. V is float, or a
// register of floats.
template <class V>
TETE_INLINE V exp_of_rest(V x, V& shifted) {
  shifted = x * 1.44269504f + round_up;
  const V k = shifted - round_up;
  const V r = (x - k * 0.693145752f) - k * 1.42860677e-6f;
  const V tail = polynomial({0.5000000014f, 0.1666666668f, 0.04166646267f, 0.008333310675f,
                             0.001393390005f, 0.0001989126851f},
                            r);
  return r * r * tail + r + 1.0f;
}

// exp x = 2^k exp r. At most 1 ulp.
TETE_INLINE float exp(float x) {
  const float low = -104.0f, high = 89.0f;  // beyond, 0 and infinity; a NaN stays
  x = x < low ? low : x;
  x = x > high ? high : x;
  float shifted;
  const float y = exp_of_rest(x, shifted);
  // Two factors, as 2^k itself may be outside the range of a float.
  const int32_t k = as_bits(shifted) - as_bits(round_up), half = k >> 1;
  return y * as_float((half + 127) << 23) * as_float((k - half + 127) << 23);
}

// The same bits for x < 43, where 2^(k + 64) is in that range: with less work.
template <class V>
TETE_INLINE V exp_below(V x) {
  const V low = V{} - 104.0f;
  x = x < low ? low : x;
  V shifted;
  const V y = exp_of_rest(x, shifted);
  const auto exponent = (__builtin_bit_cast(BitsOf<V>, shifted) << 23) + ((127u + 64u) << 23);
  return y * __builtin_bit_cast(V, exponent) * 5.42101086e-20f;
}

// log x = e ln 2 + log(1 + f), 1 + f in [√½, √2). At most 1 ulp.
TETE_INLINE float log(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const int32_t bits = as_bits(scaled) - 0x3F3504F3;  // √½
  const float e = static_cast<float>(bits >> 23) - (tiny ? 23.0f : 0.0f);
  const float f = as_float((bits & 0x7FFFFF) + 0x3F3504F3) - 1.0f;
  const float tail =
      polynomial({0.3333333118f, -0.2499999696f, 0.2000071575f, -0.1666780232f, 0.1424905765f,
                  -0.1242568733f, 0.1168541992f, -0.1147973385f, 0.06971611471f},
                 f);
  const float ff = f * f;
  float y = e * 1.42860677e-6f + (f * ff * tail - 0.5f * ff);
  y = (f + y) + e * 0.693145752f;
  y = x < infinity() ? y : x;  // infinity and NaN are their own logarithms
  y = x > 0.0f ? y : x != x ? x : x == 0.0f ? -infinity() : __builtin_nanf("");
  return y;
}

// Small x: x + x³ p(x²); else 1 - 2/(exp 2x + 1). At most 2 ulp.
TETE_INLINE float tanh(float x) {
  const float a = absolute(x), z = x * x;
  const float near = x + x * z *
                             polynomial({-0.3333333315f, 0.1333330015f, -0.05395846163f,
                                         0.02176250291f, -0.008323187058f, 0.002269501684f},
                                        z);
  const float far = with_sign(1.0f - 2.0f / (exp(2.0f * a) + 1.0f), x);
  return a < 0.625f ? near : x != x ? x : far;
}

// Small x: x p(x²); else 1 - exp q(|x|), where q fits log erfc. At most 2 ulp.
TETE_INLINE float erf(float x) {
  const float a = absolute(x);
  const float near = x * polynomial({1.128379166f, -0.3761262667f, 0.1128359472f, -0.02685421201f,
                                     0.005189087423f, -0.0008016864287f, 7.875875063e-5f},
                                    x * x);
  const float t = (a < 4.0f ? a : 4.0f) - 2.5f;  // from 4 on, erf rounds to 1
  const float q = polynomial({-7.80681556f, -5.35268201f, -0.943892384f, -0.0108453229f,
                              0.00218527220f, -0.000413302014f, 6.95821888e-5f, -2.03613878e-5f},
                             t);
  const float far = with_sign(1.0f - exp_below(q), x);
  return a < 1.0f ? near : x != x ? x : far;
}

// 1/(1 + exp(-x)), with the exponential of -|x|, which cannot overflow. At most 3 ulp.
TETE_INLINE float sigmoid(float x) {
  const float e = exp_below(-absolute(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// log(1 + exp x) = max(x, 0) + log(1 + e), e = exp(-|x|). At most 3 ulp.
TETE_INLINE float softplus(float x) {
  const float e = exp_below(-absolute(x));
  const float u = 1.0f + e;
  const float log1p = log(u) + (e - (u - 1.0f)) / u;  // corrects u's rounding
  return (x < 0.0f ? 0.0f : x) + log1p;
}

// sin(x + quarter·π/2). The angle is reduced in double: exact to 2^-30 for |x| < 2^23. At most
// 1 ulp there; above, the quarter turn itself is lost bit by bit.
TETE_INLINE float sine(float x, int64_t quarter) {
  const double round = 6755399441055744.0;  // 1.5·2^52
  const double shifted = static_cast<double>(x) * 0.63661977236758134 + round;
  const int64_t turn = __builtin_bit_cast(int64_t, shifted) + quarter;
  const double k = shifted - round;
  const double r = (static_cast<double>(x) - k * 1.5707963109016418) - k * 1.5893254773528197e-8;
  const float a = static_cast<float>(r), z = a * a;
  const float sine =
      a +
      a * z * polynomial({-0.1666666666f, 0.008333331803f, -0.0001984004821f, 2.724497002e-6f}, z);
  const float cosine = (1.0f - 0.5f * z) +
                       z * z * polynomial({0.04166666456f, -0.001388828395f, 2.454385166e-5f}, z);
  const float y = turn & 1 ? cosine : sine;
  return turn & 2 ? -y : y;
}
TETE_INLINE float sin(float x) { return sine(x, 0); }
TETE_INLINE float cos(float x) { return sine(x, 1); }
TETE_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
TETE_INLINE float floor(float x) { return __builtin_floorf(x); }
TETE_INLINE float pow(float a, float b) { return __builtin_powf(a, b); }

TETE_INLINE double exp(double x) { return __builtin_exp(x); }
TETE_INLINE double exp_below(double x) { return __builtin_exp(x); }
TETE_INLINE double log(double x) { return __builtin_log(x); }
TETE_INLINE double tanh(double x) { return __builtin_tanh(x); }
TETE_INLINE double erf(double x) { return __builtin_erf(x); }
TETE_INLINE double sin(double x) { return __builtin_sin(x); }
TETE_INLINE double cos(double x) { return __builtin_cos(x); }
TETE_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
TETE_INLINE double floor(double x) { return __builtin_floor(x); }
TETE_INLINE double pow(double a, double b) { return __builtin_pow(a, b); }
TETE_INLINE double sigmoid(double x) {
  const double e = exp(-absolute(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}
TETE_INLINE double softplus(double x) {
  return (x < 0 ? 0.0 : x) + __builtin_log1p(exp(-absolute(x)));
}

// Φ(x), bell = exp(-x²/2). Φ(-|x|) = t q(t) bell, t = 1/(1 + 0.3 |x|/√2), where q fits erfc with a
// relative error of 2e-8.
TETE_INLINE float normal_cdf(float x, float bell) {
  const float t = 1.0f / (1.0f + 0.212132037f * absolute(x));
  const float tail =
      t * bell *
      polynomial({0.08459400386f, 0.08535760641f, 0.07416963577f, 0.1074628234f, -0.04732486978f,
                  0.2738592923f, -0.2561383843f, 0.2427812815f, -0.06476138532f},
                 t);
  return x > 0.0f ? 1.0f - tail : tail;
}

// x Φ(x), within 2e-7 |x|, and Φ(x) + x Φ'(x), at most 3 ulp of 1.
TETE_INLINE float gelu_erf(float x) { return x * normal_cdf(x, exp_below(-0.5f * x * x)); }
TETE_INLINE float gelu_erf_slope(float x) {
  const float bell = exp_below(-0.5f * x * x);
  return normal_cdf(x, bell) + x * 0.398942292f * bell;
}

// s + x s (1 - s) 2u', s = sigmoid 2u, with u of core/gelu.hpp: one exponential. At most 6 ulp
// of 1.
TETE_INLINE float gelu_slope(float x) {
  const float xx = x * x, scale = static_cast<float>(2.0 * gelu_scale);
  const float two_u = (xx * static_cast<float>(gelu_cubic) + 1.0f) * x * scale;
  const float e = exp_below(-absolute(two_u)), r = 1.0f / (1.0f + e);
  const float two_du = (xx * static_cast<float>(3.0 * gelu_cubic) + 1.0f) * scale;
  return (two_u < 0.0f ? e : 1.0f) * r + e * r * r * two_du * x;
}

// A T that turns every literal it meets into a T: no float kernel computes in double.
template <class T>
struct Number {
  T v;

  TETE_MEMBER Number(T v) : v(v) {}
  template <class Literal>
  TETE_MEMBER Number(Literal v) : v(static_cast<T>(v)) {}

#define TETE_OPERATOR(op) \
  TETE_MEMBER friend Number operator op(Number a, Number b) { return a.v op b.v; }
  TETE_OPERATOR(+)
  TETE_OPERATOR(-)
  TETE_OPERATOR(*)
  TETE_OPERATOR(/)
#undef TETE_OPERATOR
#define TETE_COMPARISON(op) \
  TETE_MEMBER friend bool operator op(Number a, Number b) { return a.v op b.v; }
  TETE_COMPARISON(<)
  TETE_COMPARISON(>)
  TETE_COMPARISON(==)
  TETE_COMPARISON(!=)
#undef TETE_COMPARISON
  TETE_MEMBER Number operator-() const { return -v; }

#define TETE_FUNCTION(name) \
  TETE_MEMBER friend Number name(Number x) { return TETE_ISA::name(x.v); }
  TETE_FUNCTION(exp)
  TETE_FUNCTION(log)
  TETE_FUNCTION(sqrt)
  TETE_FUNCTION(sin)
  TETE_FUNCTION(cos)
  TETE_FUNCTION(tanh)
  TETE_FUNCTION(erf)
  TETE_FUNCTION(sigmoid)
  TETE_FUNCTION(softplus)
  TETE_FUNCTION(floor)
#undef TETE_FUNCTION
  TETE_MEMBER friend Number pow(Number a, Number b) { return TETE_ISA::pow(a.v, b.v); }
  TETE_MEMBER friend Number step(Number x) { return x > 0 ? T(1) : T(0); }
  TETE_MEMBER friend Number relu(Number x) { return x < 0 ? T(0) : x.v; }
  TETE_MEMBER friend Number less(Number a, Number b) { return a < b ? T(1) : T(0); }
#define TETE_FUNCTION_OF_FLOATS(name)                                     \
  TETE_MEMBER friend Number name(Number x) {                              \
    if constexpr (sizeof(T) == sizeof(float)) return TETE_ISA::name(x.v); \
    else return tete::name<Number>(x);                                    \
  }
  TETE_FUNCTION_OF_FLOATS(gelu_erf)
  TETE_FUNCTION_OF_FLOATS(gelu_erf_slope)
  TETE_FUNCTION_OF_FLOATS(gelu_slope)
#undef TETE_FUNCTION_OF_FLOATS
  // x sigmoid 2u is 0.5 x (1 + tanh u) without its cancellation.
  TETE_MEMBER friend Number gelu(Number x) {
    return x * sigmoid((x * x * gelu_cubic + 1.0) * x * (2.0 * gelu_scale));
  }
};

}  // namespace tete::cpu_kernels::TETE_ISA
