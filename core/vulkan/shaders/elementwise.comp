#version 450
#extension GL_GOOGLE_include_directive : require
// Elementwise operations and their derivatives: the rows of elementwise.def, read as GLSL. KIND and
// OP are known when the pipeline is made, so that a single row is left.
#include "numbers.glsl"
#define VIEWS 5
#define REST uint rate;
#include "view.glsl"
layout(constant_id = 1) const uint KIND = 0;
layout(constant_id = 2) const uint OP = 0;
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

void main() {
  const uint i = invocation();
  if (i >= count()) return;
  const uvec4 at = coordinates(i);
  const uint a = element(0, at), b = element(1, at), c = element(2, at), d = element(3, at),
             y = element(4, at);
  switch (KIND) {  // the order of Kind in core/vulkan/elementwise.cpp
    case 0: Y[y] = unary(A[a]); break;
    case 1: Y[y] = slope(A[a], B[b], C[c]); break;
    case 2: Y[y] = binary(A[a], B[b]); break;
    case 3: Y[y] = A[a] != 0.0 ? B[b] : C[c]; break;
    case 4: Y[y] = unary(A[a] + B[b]); break;
    case 5: Y[y] = slope(A[a] + B[b], C[c], D[d]); break;
    case 6: Y[y] += A[a]; break;
    case 7: Y[y] = A[a] * B[b] * C[c]; break;
    case 8: Y[y] = A[a] - R[call.rate] * (B[b] * C[c] * D[d]); break;
  }
}
