#version 450
#extension GL_GOOGLE_include_directive : require
// What a scatter needs to know of its positions, in four lists of `all` numbers: the element of the
// table that each adds to (the key), the element of the gradient that it reads, the next position
// of the same key, and 1 at the first of a key. The keys are found first, then the links.
#define VIEWS 3
#define REST int along; uint size_along; uint before, all;
#include "view.glsl"
layout(constant_id = 3) const bool LINKS = false;
layout(binding = 0) readonly buffer I_ { uint I[]; };
layout(binding = 1) buffer L_ { uint list[]; };

void main() {
  const uint i = invocation();
  if (i >= count()) return;
  if (!LINKS) {
    const uvec4 at = coordinates(i);
    const uint position = min(I[2 * element(2, at)], call.size_along - 1);
    list[call.before + i] = element(1, at) + position * uint(call.along);
    list[call.all + call.before + i] = element(0, at);
    return;
  }
  const uint key = list[i];
  uint next = i + 1, earlier = i;
  while (next < call.all && list[next] != key) ++next;
  while (earlier > 0 && list[earlier - 1] != key) --earlier;
  list[2 * call.all + i] = next;
  list[3 * call.all + i] = earlier == 0 ? 1 : 0;
}
