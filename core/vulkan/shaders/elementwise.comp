#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
// Elementwise operations and their derivatives: the rows of elementwise.def, read as GLSL. KIND and
// OP are known when the pipeline is made, so that a single row is left.
#include "numbers.glsl"
#define VIEWS 5
#define REST uint rate;
#include "view.glsl"
layout(constant_id = 3) const uint KIND = 0;
layout(constant_id = 4) const uint OP = 0;
layout(binding = 0) readonly buffer A_ { REAL A[]; };
layout(binding = 1) readonly buffer B_ { REAL B[]; };
layout(binding = 2) readonly buffer C_ { REAL C[]; };
layout(binding = 3) readonly buffer D_ { REAL D[]; };
layout(binding = 4) buffer Y_ { REAL Y[]; };
layout(binding = 5) readonly buffer R_ { REAL R[]; };

REAL unary(REAL x) {
  uint row = 0;
  REAL y = x;
#define UNARY(name, value, gradient, low, high) if (OP == row++) y = value;
#define BINARY(name, value, gradient_a, gradient_b, low, high)
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  return y;
}
REAL slope(REAL x, REAL y, REAL g) {
  uint row = 0;
  REAL dx = g;
#define UNARY(name, value, gradient, low, high) if (OP == row++) dx = gradient;
#define BINARY(name, value, gradient_a, gradient_b, low, high)
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  return dx;
}
REAL binary(REAL a, REAL b) {
  uint row = 0;
  REAL y = a;
#define UNARY(name, value, gradient, low, high)
#define BINARY(name, value, gradient_a, gradient_b, low, high) if (OP == row++) y = value;
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  return y;
}

REAL value(REAL a, REAL b, REAL c, REAL d, REAL y) {
  switch (KIND) {  // the order of Kind in core/vulkan/backend.hpp
    case 0: return unary(a);
    case 1: return slope(a, b, c);
    case 2: return binary(a, b);
    case 3: return a != 0.0 ? b : c;
    case 4: return unary(a + b);
    case 5: return slope(a + b, c, d);
    case 6: return y + a;
    case 7: return a * b * c;
  }
  return a - R[call.rate] * (b * c * d);
}

// All is read before anything is written, so that the reads are under way at once; what KIND does
// not take is not read. Indices behind the last element stand for it, and write nothing.
void main() {
  REAL a[EACH], b[EACH], c[EACH], d[EACH], old[EACH];
  uint to[EACH];
  [[unroll]] for (uint j = 0; j < EACH; ++j) {
    const uvec4 at = coordinates(min(index(j), count() - 1));
    a[j] = A[element(0, at)], b[j] = B[element(1, at)];
    c[j] = C[element(2, at)], d[j] = D[element(3, at)];
    to[j] = element(4, at), old[j] = Y[to[j]];
  }
  [[unroll]] for (uint j = 0; j < EACH; ++j) {
    const REAL y = value(a[j], b[j], c[j], d[j], old[j]);
    if (index(j) < count()) Y[to[j]] = y;
  }
}
