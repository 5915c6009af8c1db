#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
// softmax of rows where the mask is not 0; a row hidden everywhere gives zeros. And its gradient:
// dx = y (g - sum y g).
#include "numbers.glsl"
#define VIEWS 3
#define REST
#include "rows.glsl"
layout(constant_id = 3) const bool MASKED = false;
layout(constant_id = 4) const bool GRADIENT = false;
layout(binding = 0) readonly buffer X_ { REAL X[]; };  // x, or y
layout(binding = 1) readonly buffer M_ { REAL M[]; };  // mask, or g
layout(binding = 2) writeonly buffer Y_ { REAL Y[]; };

REAL x[KEPT], g[KEPT];
REAL shown = 0.0;  // 1 if an invocation saw a number that is not hidden

void load(uint row, uint block) {
  KEPT_NUMBERS {
    const uint i = place(block, k);
    const bool is_inside = i < call.n;
    const REAL own = is_inside ? X[at(0, row, i)] : REAL(0.0);  // does not wait for the mask
    const bool is_seen = is_inside && (!MASKED || M[at(1, row, i)] != 0.0);
    x[k] = is_seen ? own : GRADIENT ? REAL(0.0) : -infinity;
    if (is_seen) shown = 1.0;
    if (GRADIENT) g[k] = is_seen ? M[at(1, row, i)] : REAL(0.0);
  }
}
void write(uint row, uint i, REAL y) {
  if (i < call.n) Y[at(2, row, i)] = y;
}

void find_gradient(uint row) {
  REAL sum = REAL(0.0);
  BLOCKS {
    if (!WHOLE) load(row, block);
    KEPT_NUMBERS sum += x[k] * g[k];
  }
  sum = total(sum);
  BLOCKS {
    if (!WHOLE) load(row, block);
    KEPT_NUMBERS write(row, place(block, k), x[k] * (g[k] - sum));
  }
}

// Hidden numbers, and those behind the row's end, are -infinity: their exponential is 0.
void find_softmax(uint row) {
  REAL top = -infinity;
  BLOCKS {
    if (!WHOLE) load(row, block);
    KEPT_NUMBERS top = max(top, x[k]);
  }
  top = highest(top);
  if (MASKED && top == -infinity && highest(shown) == 0.0) top = REAL(0.0);
  REAL sum = REAL(0.0);
  BLOCKS {
    if (!WHOLE) load(row, block);
    KEPT_NUMBERS sum += x[k] = exp(x[k] - top);
  }
  sum = total(sum);
  const REAL inverse = sum == 0.0 ? REAL(1.0) : 1.0 / sum;
  BLOCKS {
    if (!WHOLE) load(row, block);
    KEPT_NUMBERS write(row, place(block, k), (WHOLE ? x[k] : exp(x[k] - top)) * inverse);
  }
}

void main() {
  const uint row = row_number();
  if (!is_row(row)) return;
  if (WHOLE) load(row, 0);
  if (GRADIENT) find_gradient(row);
  else find_softmax(row);
}
