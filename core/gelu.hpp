// gelu_erf, and the slopes of gelu and gelu_erf. gelu_erf(x) = x Φ(x).
// gelu(x) = 0.5 x (1 + tanh u), u = √(2/π) (x + 0.044715 x³).
// gelu'(x) = 0.5 (1 + tanh u) + 0.5 x (1 - tanh² u) u', u' = √(2/π) (1 + 3·0.044715 x²).
//
// Read twice, as every gradient is: with numbers it is the kernel, with tensors the meaning.
#pragma once

namespace tete {

inline constexpr double gelu_scale = 0.7978845608028654;  // √(2/π)
inline constexpr double gelu_cubic = 0.044715;

template <class V>
V gelu_slope(const V& x) {
  const V xx = x * x;
  const V t = tanh((xx * gelu_cubic + 1.0) * x * gelu_scale);
  const V du = (xx * (3.0 * gelu_cubic) + 1.0) * gelu_scale;
  return (t + 1.0) * 0.5 + (1.0 - t * t) * du * x * 0.5;
}

template <class V>
V gelu_erf(const V& x) {
  return 0.5 * x * (1.0 + erf(x * 0.7071067811865476));
}

// The slope of gelu_erf is Φ(x) + x Φ'(x). Φ is computed first: if the compiler
// branches inside erf, the last product and the sum must stay together, as they are rounded once.
template <class V>
V gelu_erf_slope(const V& x) {
  const V below = 0.5 + 0.5 * erf(x * 0.7071067811865476);
  return below + x * 0.3989422804014327 * exp(-0.5 * x * x);
}

}  // namespace tete
