#version 450
#extension GL_GOOGLE_include_directive : require
// The positions of each row's largest numbers: an element that so many are ahead of, and fewer than
// are asked for, writes its position there. NaN is largest; of equal ones the first comes first.
#ifdef DOUBLE
#define REAL double
#else
#define REAL float
#endif
#define VIEWS 2
#define REST int found_step; uint found;
#include "view.glsl"
layout(binding = 0) readonly buffer X_ { REAL X[]; };
layout(binding = 1) writeonly buffer F_ { uint F[]; };

void main() {
  const uint i = invocation();
  if (i >= count()) return;
  const uvec4 at = coordinates(i);
  const REAL own = X[element(0, at)];
  uint ahead = 0;
  for (uint k = 0; k < call.size[3]; ++k) {
    const REAL x = X[element(0, uvec4(at.xyz, k))];
    const bool same = isnan(x) && isnan(own) || x == own;
    const bool above = isnan(x) ? !isnan(own) : x > own;
    if (above || same && k < at.w) ++ahead;
  }
  if (ahead >= call.found) return;
  const uint f = 2 * (element(1, at) + ahead * uint(call.found_step));
  F[f] = at.w;
  F[f + 1] = 0;
}
