#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
// loss = log sum exp z - z[target] of each row of logits; and its gradient,
// dz = g (exp(z - lse) - [v = target]).
#include "numbers.glsl"
#define VIEWS 5
#define REST
#include "rows.glsl"
layout(constant_id = 3) const bool GRADIENT = false;
layout(binding = 0) readonly buffer Z_ { REAL Z[]; };
layout(binding = 1) readonly buffer T_ { uint targets[]; };  // i64, each in its two words
layout(binding = 2) readonly buffer G_ { REAL G[]; };
layout(binding = 3) buffer L_ { REAL lse[]; };
layout(binding = 4) writeonly buffer Y_ { REAL Y[]; };  // the loss, or dz

REAL z[KEPT];

void load(uint row, uint block) {
  KEPT_NUMBERS {
    const uint i = place(block, k);
    z[k] = i < call.n ? Z[at(0, row, i)] : -infinity;
  }
}
REAL finite(REAL top) { return top == -infinity ? REAL(0.0) : top; }

void find_gradient(uint row, uint target) {
  const REAL g = G[at(2, row, 0)], all = lse[at(3, row, 0)];
  BLOCKS {
    load(row, block);
    KEPT_NUMBERS {
      const uint i = place(block, k);
      if (i < call.n) Y[at(4, row, i)] = g * (exp(z[k] - all) - (i == target ? 1.0 : 0.0));
    }
  }
}

// A row is read once: each invocation sums below the largest number that it has seen so far.
void find_loss(uint row, uint target) {
  REAL top = -infinity, sum = REAL(0.0);
  BLOCKS {
    load(row, block);
    REAL next = top;
    KEPT_NUMBERS next = max(next, z[k]);
    sum *= exp(top - finite(next));
    top = next;
    KEPT_NUMBERS sum += exp(z[k] - finite(top));
  }
  const REAL highest_ = finite(highest(top));
  sum = total(sum * exp(top - highest_));
  if (gl_LocalInvocationIndex != 0) return;
  const REAL all = log(sum) + highest_;
  lse[at(3, row, 0)] = all;
  Y[at(4, row, 0)] = all - Z[at(0, row, target)];
}

void main() {
  const uint row = row_number();
  if (!is_row(row)) return;
  const uint target = min(targets[2 * at(1, row, 0)], call.n - 1);
  if (GRADIENT) find_gradient(row, target);
  else find_loss(row, target);
}
