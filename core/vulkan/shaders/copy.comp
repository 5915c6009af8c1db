#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
// Copies between strides and types, or fills with a number of TO. Numbers are read as words, so that
// one text serves all types: HALF writes bf16, DOUBLE reads and writes f64.
#ifdef HALF
#extension GL_EXT_shader_16bit_storage : require
#endif
#define VIEWS 2
#define REST uint bits[2];
#include "view.glsl"
#include "bf16.glsl"
const uint f32 = 0, f64 = 1, i64 = 2, bf16 = 3, number = 4;  // as in Dtype; a number: fill
layout(constant_id = 3) const uint FROM = 0;
layout(constant_id = 4) const uint TO = 0;
layout(binding = 0) readonly buffer X_ { uint X[]; };
layout(binding = 1) buffer Y_ { uint Y[]; };
#ifdef HALF
layout(binding = 1) buffer H_ { uint16_t H[]; };
#endif
#ifdef DOUBLE
#define REAL double
#else
#define REAL float
#endif

uvec2 bits_at(uint x) {
  if (FROM == number) return uvec2(call.bits[0], call.bits[1]);
  if (FROM == bf16) return uvec2(bits_of_bf16(X[x / 2], x), 0);
  return FROM == f32 ? uvec2(X[x], 0) : uvec2(X[2 * x], X[2 * x + 1]);
}

// One rounding for doubles, and for floats of less than 2^31.
REAL whole(uvec2 bits) {
  if (int(bits.y) == int(bits.x) >> 31) return REAL(int(bits.x));
  return REAL(int(bits.y)) * REAL(4294967296.0) + REAL(bits.x);
}
REAL real(uvec2 bits) {
  if (FROM == i64) return whole(bits);
#ifdef DOUBLE
  if (FROM == f64) return packDouble2x32(bits);
#endif
  return uintBitsToFloat(FROM == bf16 ? bits.x << 16 : bits.x);
}

// Toward zero. What is outside the range, and NaN, becomes the smallest integer.
uvec2 truncated(REAL x) {
  if (!(x >= -9223372036854775808.0 && x < 9223372036854775808.0)) return uvec2(0, 0x80000000u);
  const REAL size = floor(abs(x)), high = floor(size * REAL(0.00000000023283064365386962890625));
  uvec2 bits = uvec2(uint(size - high * REAL(4294967296.0)), uint(high));
  if (x < 0.0) bits = uvec2(~bits.x + 1, ~bits.y + (bits.x == 0 ? 1 : 0));
  return bits;
}
// To the nearest, the even one of two; a NaN keeps its upper bits and one more.
uint rounded(float x) {
  const uint bits = floatBitsToUint(x);
  if (isnan(x)) return bits >> 16 | 0x40;
  return bits + 0x7FFF + (bits >> 16 & 1) >> 16;
}
uvec2 converted(uvec2 bits) {
  if (FROM == TO || FROM == number) return bits;
  const REAL x = real(bits);
  if (TO == i64) return truncated(x);
#ifdef DOUBLE
  if (TO == f64) return unpackDouble2x32(x);
#endif
  return TO == bf16 ? uvec2(rounded(float(x)), 0) : uvec2(floatBitsToUint(float(x)), 0);
}

void write(uint y, uvec2 bits) {
#ifdef HALF
  H[y] = uint16_t(bits.x);
#else
  if (TO == f32) {
    Y[y] = bits.x;
  } else {
    Y[2 * y] = bits.x;
    Y[2 * y + 1] = bits.y;
  }
#endif
}

// As in elementwise.comp, all is read first.
void main() {
  uvec2 bits[EACH];
  uint to[EACH];
  [[unroll]] for (uint j = 0; j < EACH; ++j) {
    const uvec4 at = coordinates(min(index(j), count() - 1));
    bits[j] = bits_at(element(0, at)), to[j] = element(1, at);
  }
  [[unroll]] for (uint j = 0; j < EACH; ++j)
    if (index(j) < count()) write(to[j], converted(bits[j]));
}
