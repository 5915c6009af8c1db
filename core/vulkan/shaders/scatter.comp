#version 450
#extension GL_GOOGLE_include_directive : require
// T += g at each position, by the lists of links.comp: an invocation adds what goes to one element,
// in the order of the positions. Nothing is atomic, so the bits are always the same.
#ifdef DOUBLE
#define REAL double
#else
#define REAL float
#endif
#define VIEWS 2
#define REST uint all;
#include "view.glsl"
layout(binding = 0) readonly buffer G_ { REAL G[]; };
layout(binding = 1) readonly buffer L_ { uint list[]; };
layout(binding = 2) writeonly buffer T_ { REAL T[]; };

void main() {
  const uint slices = count(), i = invocation(), position = i / slices;
  if (position >= call.all || list[3 * call.all + position] == 0) return;
  const uvec4 at = coordinates(i % slices);
  const uint g = element(0, at);
  REAL sum = REAL(0.0);
  for (uint p = position; p < call.all; p = list[2 * call.all + p]) sum += G[list[call.all + p] + g];
  T[list[position] + element(1, at)] = sum;
}
