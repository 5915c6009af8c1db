#version 450
// A step of Adam; core/update.hpp has the formula. All views are flat.
#ifdef DOUBLE
#define REAL double
#else
#define REAL float
#endif
layout(constant_id = 0) const uint GROUP = 64;
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Call {
  uint n, p, g, m, v;
  REAL beta1, other1, beta2, other2, keep, rate, unit, epsilon;
} call;
layout(binding = 0) buffer P_ { REAL P[]; };
layout(binding = 1) readonly buffer G_ { REAL G[]; };
layout(binding = 2) buffer M_ { REAL M[]; };
layout(binding = 3) buffer V_ { REAL V[]; };

void main() {
  const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  const uint i = group * GROUP + gl_LocalInvocationID.x;
  if (i >= call.n) return;
  // All is read before anything is written, so that the reads are under way at once.
  const REAL g = G[call.g + i], p = P[call.p + i];
  const REAL m = M[call.m + i] * call.beta1 + g * call.other1;
  const REAL v = V[call.v + i] * call.beta2 + g * g * call.other2;
  M[call.m + i] = m;
  V[call.v + i] = v;
  P[call.p + i] = p * call.keep - call.rate * m / (sqrt(v) * call.unit + call.epsilon);
}
