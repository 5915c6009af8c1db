#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
// The gradient of a norm. With h = (x - mean) / deviation and q = scale g of a row:
// dx = (q - mean q - h mean(q h)) / deviation, without `mean q` for RMS. g h is written, too: its
// sum over the rows is the gradient of scale. q is rounded before its mean is taken off: of one
// channel nothing is left.
#ifdef DOUBLE
#define REAL double
#else
#define REAL float
#endif
#define VIEWS 5
#define REST uint scale, scale_step;
#include "rows.glsl"
layout(constant_id = 3) const bool CENTER = false;
layout(binding = 0) readonly buffer X_ { REAL X[]; };
layout(binding = 1) readonly buffer G_ { REAL G[]; };
layout(binding = 2) readonly buffer T_ { REAL stats[]; };
layout(binding = 3) writeonly buffer D_ { REAL dx[]; };
layout(binding = 4) writeonly buffer H_ { REAL gh[]; };
layout(binding = 5) readonly buffer S_ { REAL scale[]; };

REAL g[KEPT], h[KEPT];

void load(uint row, uint block, REAL mean, REAL inverse) {
  KEPT_NUMBERS {
    const uint i = place(block, k);
    g[k] = i < call.n ? G[at(1, row, i)] : REAL(0.0);
    h[k] = i < call.n ? X[at(0, row, i)] : mean;
  }
  KEPT_NUMBERS h[k] = (h[k] - mean) * inverse;
}

void main() {
  const uint row = row_number();
  if (!is_row(row)) return;
  const REAL mean = stats[at(2, row, 0)], inverse = stats[at(2, row, 1)];
  if (WHOLE) load(row, 0, mean, inverse);
  REAL sum_q = REAL(0.0), sum_qh = REAL(0.0);
  BLOCKS {
    if (!WHOLE) load(row, block, mean, inverse);
    KEPT_NUMBERS {
      const uint i = place(block, k);
      if (i >= call.n) continue;
      precise const REAL q = scale[call.scale + i * call.scale_step] * g[k];
      gh[at(4, row, i)] = g[k] * h[k];
      sum_q += q;
      sum_qh += q * h[k];
    }
  }
  const REAL mean_q = CENTER ? total(sum_q) / REAL(call.n) : REAL(0.0),
             mean_qh = total(sum_qh) / REAL(call.n);
  BLOCKS {
    if (!WHOLE) load(row, block, mean, inverse);
    KEPT_NUMBERS {
      const uint i = place(block, k);
      if (i >= call.n) continue;
      precise const REAL q = scale[call.scale + i * call.scale_step] * g[k];
      dx[at(3, row, i)] = inverse * (q - mean_q - h[k] * mean_qh);
    }
  }
}
