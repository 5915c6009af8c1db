// Rows of several views: a workgroup takes one row, and folds what its invocations found in a tree.
struct Rows {
  uint first;
  int steps[2];  // from row to row, in two dimensions
  int along;    // from number to number of a row
};
layout(push_constant) uniform Call {
  uint size[2];
  uint n;
  Rows view[VIEWS];
  REST
} call;

layout(constant_id = 0) const uint WIDTH = 64;
layout(local_size_x_id = 0) in;

shared REAL part[WIDTH];

uint row_number() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
bool is_row(uint row) { return row < call.size[0] * call.size[1]; }
uint first(uint v, uint row) {
  const Rows s = call.view[v];
  return s.first + row / call.size[1] * uint(s.steps[0]) + row % call.size[1] * uint(s.steps[1]);
}
uint at(uint v, uint row, uint i) { return first(v, row) + i * uint(call.view[v].along); }

REAL total(REAL x) {
  const uint t = gl_LocalInvocationIndex;
  part[t] = x;
  barrier();
  for (uint half_ = WIDTH / 2; half_ > 0; half_ /= 2) {
    if (t < half_) part[t] += part[t + half_];
    barrier();
  }
  const REAL all = part[0];
  barrier();
  return all;
}
REAL highest(REAL x) {
  const uint t = gl_LocalInvocationIndex;
  part[t] = x;
  barrier();
  for (uint half_ = WIDTH / 2; half_ > 0; half_ /= 2) {
    if (t < half_) part[t] = max(part[t], part[t + half_]);
    barrier();
  }
  const REAL all = part[0];
  barrier();
  return all;
}
