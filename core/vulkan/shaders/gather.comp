#version 450
#extension GL_GOOGLE_include_directive : require
// y = T at the position that I (i64) holds. Numbers are moved as words, W of them each. A position
// outside is read as the nearest one inside: check_inside tells it.
#define VIEWS 3
#define REST int along; uint size_along;
#include "view.glsl"
layout(constant_id = 3) const uint W = 1;
layout(binding = 0) readonly buffer T_ { uint T[]; };
layout(binding = 1) readonly buffer I_ { uint I[]; };
layout(binding = 2) writeonly buffer Y_ { uint Y[]; };

void main() {
  const uint i = invocation();
  if (i >= count()) return;
  const uvec4 at = coordinates(i);
  const uint position = min(I[2 * element(1, at)], call.size_along - 1);
  const uint t = element(0, at) + position * uint(call.along), y = element(2, at);
  for (uint w = 0; w < W; ++w) Y[W * y + w] = T[W * t + w];
}
