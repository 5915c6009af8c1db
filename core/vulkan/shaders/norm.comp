#version 450
#extension GL_GOOGLE_include_directive : require
// Norms of rows: y = scale (x - mean) / sqrt(variance + epsilon) + bias, or without mean and bias
// (RMS). ADDS: x = a + r is computed and written first.
#ifdef DOUBLE
#define REAL double
#else
#define REAL float
#endif
#define VIEWS 5
#define REST uint scale, scale_step, bias, bias_step; float epsilon;
#include "rows.glsl"
layout(constant_id = 1) const bool CENTER = false;
layout(constant_id = 2) const bool ADDS = false;
layout(binding = 0) readonly buffer A_ { REAL A[]; };
layout(binding = 1) readonly buffer R_ { REAL R[]; };
layout(binding = 2) writeonly buffer Sum_ { REAL sum[]; };
layout(binding = 3) writeonly buffer Y_ { REAL Y[]; };
layout(binding = 4) writeonly buffer T_ { REAL stats[]; };
layout(binding = 5) readonly buffer S_ { REAL scale[]; };
layout(binding = 6) readonly buffer B_ { REAL bias[]; };

REAL x_at(uint row, uint i) {
  const REAL a = A[at(0, row, i)];
  return ADDS ? a + R[at(1, row, i)] : a;
}

void main() {
  const uint row = row_number(), t = gl_LocalInvocationIndex;
  if (!is_row(row)) return;
  REAL mean = REAL(0.0), squares = REAL(0.0);
  if (CENTER) {
    for (uint i = t; i < call.n; i += WIDTH) mean += x_at(row, i);
    mean = total(mean) / REAL(call.n);
  }
  for (uint i = t; i < call.n; i += WIDTH) {
    const REAL x = x_at(row, i) - mean;
    squares += x * x;
  }
  const REAL inverse = 1.0 / sqrt(total(squares) / REAL(call.n) + REAL(call.epsilon));
  for (uint i = t; i < call.n; i += WIDTH) {
    const REAL x = x_at(row, i);
    if (ADDS) sum[at(2, row, i)] = x;
    const REAL y = (x - mean) * inverse * scale[call.scale + i * call.scale_step];
    Y[at(3, row, i)] = CENTER ? y + bias[call.bias + i * call.bias_step] : y;
  }
  if (t == 0) {
    stats[at(4, row, 0)] = mean;
    stats[at(4, row, 1)] = inverse;
  }
}
