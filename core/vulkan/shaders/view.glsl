// Views of one call: their common dimensions, outermost first, and of each view its first element
// and its steps. One invocation an element; only the last dimension is longer than 1 if RANK is 1.
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
layout(local_size_x = 64) in;

uint invocation() {
  return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationID.x;
}
uint count() {
  return RANK == 1 ? call.size[3] : call.size[0] * call.size[1] * call.size[2] * call.size[3];
}
uvec4 coordinates(uint i) {
  if (RANK == 1) return uvec4(0, 0, 0, i);
  uvec4 at;
  at.w = i % call.size[3], i /= call.size[3];
  at.z = i % call.size[2], i /= call.size[2];
  at.y = i % call.size[1], at.x = i / call.size[1];
  return at;
}
// The element of a view at these coordinates.
uint element(uint v, uvec4 at) {
  const View s = call.view[v];
  if (RANK == 1) return s.first + at.w * uint(s.steps[3]);
  return s.first + at.x * uint(s.steps[0]) + at.y * uint(s.steps[1]) + at.z * uint(s.steps[2]) +
         at.w * uint(s.steps[3]);
}
