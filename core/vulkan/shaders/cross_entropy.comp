#version 450
#extension GL_GOOGLE_include_directive : require
// loss = log sum exp z - z[target] of each row of logits; and its gradient,
// dz = g (exp(z - lse) - [v = target]).
#include "numbers.glsl"
#define VIEWS 5
#define REST
#include "rows.glsl"
layout(constant_id = 1) const bool GRADIENT = false;
layout(binding = 0) readonly buffer Z_ { REAL Z[]; };
layout(binding = 1) readonly buffer T_ { uint targets[]; };  // i64, each in its two words
layout(binding = 2) readonly buffer G_ { REAL G[]; };
layout(binding = 3) buffer L_ { REAL lse[]; };
layout(binding = 4) writeonly buffer Y_ { REAL Y[]; };  // the loss, or dz

void main() {
  const uint row = row_number(), t = gl_LocalInvocationIndex;
  if (!is_row(row)) return;
  const uint target = min(targets[2 * at(1, row, 0)], call.n - 1);
  if (GRADIENT) {
    const REAL g = G[at(2, row, 0)], total_ = lse[at(3, row, 0)];
    for (uint i = t; i < call.n; i += WIDTH)
      Y[at(4, row, i)] = g * (exp(Z[at(0, row, i)] - total_) - (i == target ? 1.0 : 0.0));
    return;
  }
  REAL top = -infinity;
  for (uint i = t; i < call.n; i += WIDTH) top = max(top, Z[at(0, row, i)]);
  top = highest(top);
  if (top == -infinity) top = REAL(0.0);
  REAL sum = REAL(0.0);
  for (uint i = t; i < call.n; i += WIDTH) sum += exp(Z[at(0, row, i)] - top);
  sum = total(sum);
  if (t != 0) return;
  const REAL all = log(sum) + top;
  lse[at(3, row, 0)] = all;
  Y[at(4, row, 0)] = all - Z[at(0, row, target)];
}
