#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
// softmax(x P) R where the mask is not 0, or without R if nothing is MIXED afterwards: an
// invocation has all heads of its keys in registers. And its gradient: of w = softmax(x P), given g,
// dl = w (d - sum w d) for d = g R^T, and dx = dl P^T.
#include "numbers.glsl"
#define VIEWS 4
#define REST int from_head[VIEWS]; uint p_first; int p[2]; uint r_first; int r[2];
#include "rows.glsl"
layout(constant_id = 3) const bool MASKED = false;
layout(constant_id = 4) const bool GRADIENT = false;
layout(constant_id = 5) const bool KEEPS = false;  // w
layout(constant_id = 6) const bool MIXED = false;
layout(constant_id = 7) const uint IN = 1;  // heads of x, w and y
layout(constant_id = 8) const uint HEADS = 1;
layout(constant_id = 9) const uint OUT = 1;
layout(binding = 0) readonly buffer A_ { REAL A[]; };  // x, or w
layout(binding = 1) readonly buffer B_ { REAL B[]; };  // mask, or g
layout(binding = 2) buffer C_ { REAL C[]; };           // w, or dl
layout(binding = 3) buffer D_ { REAL D[]; };           // y, or dx
layout(binding = 4) readonly buffer P_ { REAL P[]; };
layout(binding = 5) readonly buffer R_ { REAL R[]; };

uint place(uint v, uint row, uint i, uint head) {
  return at(v, row, i) + head * uint(call.from_head[v]);
}
REAL before(uint g, uint h) { return P[call.p_first + g * uint(call.p[0]) + h * uint(call.p[1])]; }
REAL after(uint h, uint k) { return R[call.r_first + h * uint(call.r[0]) + k * uint(call.r[1])]; }
bool visible(uint row, uint i, uint h) { return !MASKED || B[place(1, row, i, h)] != 0.0; }

REAL now[HEADS];  // of one key: logits, weights, or their gradients

void find_logits(uint row, uint i) {
  for (uint h = 0; h < HEADS; ++h) now[h] = REAL(0.0);
  for (uint g = 0; g < IN; ++g) {
    const REAL x = A[place(0, row, i, g)];
    for (uint h = 0; h < HEADS; ++h) now[h] += x * before(g, h);
  }
}

void find_changes(uint row, uint i) {
  for (uint h = 0; h < HEADS; ++h) now[h] = MIXED ? REAL(0.0) : B[place(1, row, i, h)];
  for (uint k = 0; MIXED && k < OUT; ++k) {
    const REAL g = B[place(1, row, i, k)];
    for (uint h = 0; h < HEADS; ++h) now[h] += g * after(h, k);
  }
}

void write_mixed(uint row, uint i) {
  for (uint k = 0; MIXED && k < OUT; ++k) {
    REAL y = REAL(0.0);
    for (uint h = 0; h < HEADS; ++h) y += now[h] * after(h, k);
    D[place(3, row, i, k)] = y;
  }
  for (uint h = 0; !MIXED && h < HEADS; ++h) D[place(3, row, i, h)] = now[h];
}

void find_values(uint row) {
  REAL top[HEADS], sum[HEADS];
  for (uint h = 0; h < HEADS; ++h) top[h] = -infinity, sum[h] = REAL(0.0);
  for (uint i = gl_LocalInvocationIndex; i < call.n; i += WIDTH) {
    find_logits(row, i);
    for (uint h = 0; h < HEADS; ++h)
      if (visible(row, i, h)) top[h] = max(top[h], now[h]);
  }
  for (uint h = 0; h < HEADS; ++h) {
    top[h] = highest(top[h]);
    if (top[h] == -infinity) top[h] = REAL(0.0);
  }
  for (uint i = gl_LocalInvocationIndex; i < call.n; i += WIDTH) {
    find_logits(row, i);
    for (uint h = 0; h < HEADS; ++h)
      if (visible(row, i, h)) sum[h] += exp(now[h] - top[h]);
  }
  for (uint h = 0; h < HEADS; ++h) {
    sum[h] = total(sum[h]);
    if (sum[h] == 0.0) sum[h] = REAL(1.0);
  }
  for (uint i = gl_LocalInvocationIndex; i < call.n; i += WIDTH) {
    find_logits(row, i);
    for (uint h = 0; h < HEADS; ++h) {
      now[h] = visible(row, i, h) ? exp(now[h] - top[h]) / sum[h] : REAL(0.0);
      if (KEEPS) C[place(2, row, i, h)] = now[h];
    }
    write_mixed(row, i);
  }
}

void find_gradients(uint row) {
  REAL sum[HEADS];
  for (uint h = 0; h < HEADS; ++h) sum[h] = REAL(0.0);
  for (uint i = gl_LocalInvocationIndex; i < call.n; i += WIDTH) {
    find_changes(row, i);
    for (uint h = 0; h < HEADS; ++h) sum[h] += A[place(0, row, i, h)] * now[h];
  }
  for (uint h = 0; h < HEADS; ++h) sum[h] = total(sum[h]);
  for (uint i = gl_LocalInvocationIndex; i < call.n; i += WIDTH) {
    find_changes(row, i);
    for (uint h = 0; h < HEADS; ++h) {
      now[h] = A[place(0, row, i, h)] * (now[h] - sum[h]);
      C[place(2, row, i, h)] = now[h];
    }
    for (uint g = 0; g < IN; ++g) {
      REAL dx = REAL(0.0);
      for (uint h = 0; h < HEADS; ++h) dx += now[h] * before(g, h);
      D[place(3, row, i, g)] = dx;
    }
  }
}

void main() {
  const uint row = row_number();
  if (!is_row(row)) return;
  if (GRADIENT) find_gradients(row);
  else find_values(row);
}
