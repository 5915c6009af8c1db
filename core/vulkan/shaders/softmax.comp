#version 450
#extension GL_GOOGLE_include_directive : require
// softmax of rows where the mask is not 0; a row hidden everywhere gives zeros. And its gradient:
// dx = y (g - sum y g).
#include "numbers.glsl"
#define VIEWS 3
#define REST
#include "rows.glsl"
layout(constant_id = 1) const bool MASKED = false;
layout(constant_id = 2) const bool GRADIENT = false;
layout(binding = 0) readonly buffer X_ { REAL X[]; };  // x, or y
layout(binding = 1) readonly buffer M_ { REAL M[]; };  // mask, or g
layout(binding = 2) buffer Y_ { REAL Y[]; };

void gradient(uint row) {
  REAL sum = REAL(0.0);
  for (uint i = gl_LocalInvocationIndex; i < call.n; i += WIDTH)
    sum += X[at(0, row, i)] * M[at(1, row, i)];
  sum = total(sum);
  for (uint i = gl_LocalInvocationIndex; i < call.n; i += WIDTH)
    Y[at(2, row, i)] = X[at(0, row, i)] * (M[at(1, row, i)] - sum);
}

void main() {
  const uint row = row_number();
  if (!is_row(row)) return;
  if (GRADIENT) {
    gradient(row);
    return;
  }
  REAL top = -infinity;
  for (uint i = gl_LocalInvocationIndex; i < call.n; i += WIDTH)
    if (!MASKED || M[at(1, row, i)] != 0.0) top = max(top, X[at(0, row, i)]);
  top = highest(top);
  if (top == -infinity) top = REAL(0.0);
  REAL sum = REAL(0.0);
  for (uint i = gl_LocalInvocationIndex; i < call.n; i += WIDTH) {
    const bool visible = !MASKED || M[at(1, row, i)] != 0.0;
    const REAL e = visible ? exp(X[at(0, row, i)] - top) : REAL(0.0);
    Y[at(2, row, i)] = e;
    sum += e;
  }
  sum = total(sum);
  if (sum == 0.0) sum = REAL(1.0);
  for (uint i = gl_LocalInvocationIndex; i < call.n; i += WIDTH)
    Y[at(2, row, i)] = Y[at(2, row, i)] / sum;
}
