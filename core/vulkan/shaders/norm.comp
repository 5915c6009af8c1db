#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
// Norms of rows: y = scale (x - mean) / sqrt(variance + epsilon) + bias, or without mean and bias
// (RMS). ADDS: x = a + r is computed and written first.
#ifdef DOUBLE
#define REAL double
#define EPSILON packDouble2x32(uvec2(call.epsilon[0], call.epsilon[1]))
#else
#define REAL float
#define EPSILON uintBitsToFloat(call.epsilon[0])
#endif
#define VIEWS 5
#define REST uint scale, scale_step, bias, bias_step, epsilon[2];
#include "rows.glsl"
layout(constant_id = 3) const bool CENTER = false;
layout(constant_id = 4) const bool ADDS = false;
layout(binding = 0) readonly buffer A_ { REAL A[]; };
layout(binding = 1) readonly buffer R_ { REAL R[]; };
layout(binding = 2) writeonly buffer Sum_ { REAL sum[]; };
layout(binding = 3) writeonly buffer Y_ { REAL Y[]; };
layout(binding = 4) writeonly buffer T_ { REAL stats[]; };
layout(binding = 5) readonly buffer S_ { REAL scale[]; };
layout(binding = 6) readonly buffer B_ { REAL bias[]; };

REAL x[KEPT];

void load(uint row, uint block) {
  KEPT_NUMBERS {
    const uint i = place(block, k);
    x[k] = i < call.n ? A[at(0, row, i)] : REAL(0.0);
    if (ADDS && i < call.n) x[k] += R[at(1, row, i)];
  }
}

void main() {
  const uint row = row_number();
  if (!is_row(row)) return;
  if (WHOLE) load(row, 0);
  REAL mean = REAL(0.0), squares = REAL(0.0);
  if (CENTER) {
    BLOCKS {
      if (!WHOLE) load(row, block);
      KEPT_NUMBERS mean += x[k];
    }
    mean = total(mean) / REAL(call.n);
  }
  BLOCKS {
    if (!WHOLE) load(row, block);
    KEPT_NUMBERS if (place(block, k) < call.n) squares += (x[k] - mean) * (x[k] - mean);
  }
  const REAL inverse = 1.0 / sqrt(total(squares) / REAL(call.n) + EPSILON);
  BLOCKS {
    if (!WHOLE) load(row, block);
    KEPT_NUMBERS {
      const uint i = place(block, k);
      if (i >= call.n) continue;
      if (ADDS) sum[at(2, row, i)] = x[k];
      const REAL y = (x[k] - mean) * inverse * scale[call.scale + i * call.scale_step];
      Y[at(3, row, i)] = CENTER ? y + bias[call.bias + i * call.bias_step] : y;
    }
  }
  if (gl_LocalInvocationIndex == 0) {
    stats[at(4, row, 0)] = mean;
    stats[at(4, row, 1)] = inverse;
  }
}
