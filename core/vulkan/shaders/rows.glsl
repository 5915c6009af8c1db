// Rows of several views: a workgroup takes one row, in blocks. An invocation has KEPT numbers of a
// block in registers; a row that is WHOLE in one block is read once, others in every pass.
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
layout(constant_id = 1) const uint KEPT = 1;
layout(constant_id = 2) const bool WHOLE = false;
layout(local_size_x_id = 0) in;
#define KEPT_NUMBERS [[unroll]] for (uint k = 0; k < KEPT; ++k)
#define BLOCKS for (uint block = 0; block < (WHOLE ? 1 : call.n); block += WIDTH * KEPT)

// The place in its row of a number that is kept; behind the row's end, too.
uint place(uint block, uint k) { return block + k * WIDTH + gl_LocalInvocationIndex; }

uint row_number() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
bool is_row(uint row) { return row < call.size[0] * call.size[1]; }
uint first(uint v, uint row) {
  const Rows s = call.view[v];
  const uint outer = call.size[0] == 1 ? 0 : row / call.size[1];
  return s.first + outer * uint(s.steps[0]) + (row - outer * call.size[1]) * uint(s.steps[1]);
}
uint at(uint v, uint row, uint i) { return first(v, row) + i * uint(call.view[v].along); }

shared REAL part[WIDTH];
const uint FEW = WIDTH < 128 ? 8 : 16;

REAL join(bool adds, REAL a, REAL b) { return adds ? a + b : max(a, b); }

// Folds what all invocations found, in two steps, as a barrier takes longer than some additions: a
// few fold what others have, and all fold what these few have.
REAL fold(bool adds, REAL x) {
  const uint t = gl_LocalInvocationIndex;
  part[t] = x;
  barrier();
  if (FEW < WIDTH) {
    if (t < FEW) {
      [[unroll]] for (uint i = FEW; i < WIDTH; i += FEW) x = join(adds, x, part[t + i]);
      part[t] = x;
    }
    barrier();
  }
  x = part[0];
  [[unroll]] for (uint i = 1; i < FEW; ++i) x = join(adds, x, part[i]);
  barrier();
  return x;
}
REAL total(REAL x) { return fold(true, x); }
REAL highest(REAL x) { return fold(false, x); }
