#include "nn/against/precision.hpp"

#include <cmath>

namespace tete {

namespace {

constexpr Precision precisions[] = {{"bfloat16", 8, 0x1p-133},
                                    {"float16", 11, 0x1p-24},
                                    {"float32", 24, 0x1p-149},
                                    {"float64", 53, 0x1p-1074}};

// How many bits the significand of x needs.
int bits_needed(double x) {
  int exponent = 0;
  const auto significand = static_cast<int64_t>(std::ldexp(std::frexp(x, &exponent), 53));
  return 53 - __builtin_ctzll(static_cast<uint64_t>(significand));
}

int bits_of(const Tensor& x) {
  const int stored = x.dtype() == Dtype::f64 ? 53 : 24;
  constexpr Index too_few = 16;  // small whole numbers are exact in every precision
  Index count = 0, of_bits[54] = {};
  int most = 0;
  for (double number : x.values()) {
    if (number == 0 || !std::isfinite(number)) continue;
    const int bits = bits_needed(number);
    ++count, ++of_bits[bits];
    most = std::max(most, bits);
  }
  if (count < too_few) return stored;
  const bool half = (most == 8 || most == 11) && of_bits[most] * 8 >= count;
  return half ? most : stored == 53 && most > 24 ? 53 : 24;
}

}  // namespace

double Precision::unit() const { return std::ldexp(1.0, -bits); }

Precision precision_of(const std::vector<Tensor>& tensors) {
  int least = tensors.empty() ? 24 : 53;
  for (const Tensor& x : tensors) least = std::min(least, bits_of(x));
  for (const Precision& p : precisions)
    if (least <= p.bits) return p;
  return precisions[2];
}

}  // namespace tete
