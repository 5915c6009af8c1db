// Views of one call: their common dimensions, outermost first, and of each view its first element
// and its steps. The last RANK dimensions may be longer than 1. An invocation takes EACH elements, so
// far apart that neighbours read what is near in memory.
struct View {
  uint first;
  int steps[4];
};
layout(push_constant) uniform Call {
  uint size[4];
  View view[VIEWS];
  REST
} call;

layout(constant_id = 0) const uint RANK = 1;
layout(constant_id = 1) const uint GROUP = 64;
layout(constant_id = 2) const uint EACH = 1;
layout(local_size_x_id = 1) in;

uint index(uint each) {
  const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  return (group * EACH + each) * GROUP + gl_LocalInvocationID.x;
}
uint invocation() { return index(0); }
uint count() { return call.size[0] * call.size[1] * call.size[2] * call.size[3]; }
uvec4 coordinates(uint i) {
  uvec4 at = uvec4(0, 0, 0, i);
  if (RANK > 1) at.z = at.w / call.size[3], at.w %= call.size[3];
  if (RANK > 2) at.y = at.z / call.size[2], at.z %= call.size[2];
  if (RANK > 3) at.x = at.y / call.size[1], at.y %= call.size[1];
  return at;
}
// The element of a view at these coordinates.
uint element(uint v, uvec4 at) {
  const View s = call.view[v];
  return s.first + at.x * uint(s.steps[0]) + at.y * uint(s.steps[1]) + at.z * uint(s.steps[2]) +
         at.w * uint(s.steps[3]);
}
