// A product Y = A B of matrices in any strides, as the words of a call tell it. Rows m (of A and Y),
// columns n (of B and Y), what is summed, k, and the batch are one or two dimensions each: x_in is
// the size of the inner one. A long sum is cut into `parts` of k, of which each has a Y of its own.
layout(push_constant) uniform Call {
  uint m, n, k, m_in, n_in, k_in, batch_in;
  uint first_a, first_b, first_y;
  int am[2], ym[2], bn[2], yn[2], ak[2], bk[2], ab[2], bb[2], yb[2];  // steps, outer and inner
  uint parts, part, y_part, batches;
} call;

// The form is known when the pipeline is made; core/vulkan/contract.cpp sets its bits.
layout(constant_id = FORM) const uint form = 0xE0;
const bool ROWS_A = (form & 0x01) != 0;   // neighbours of A in memory are its rows,
const bool ROWS_B = (form & 0x02) != 0;   // and of B: k
const bool WHOLE_A = (form & 0x04) != 0;  // all lines of A, B and Y are whole vectors
const bool WHOLE_B = (form & 0x08) != 0;
const bool WHOLE_Y = (form & 0x10) != 0;
const bool TWO_M = (form & 0x20) != 0;  // m, n and k are two dimensions
const bool TWO_N = (form & 0x40) != 0;
const bool TWO_K = (form & 0x80) != 0;

uint steps(uint i, uint inner, int s[2], bool are_two) {
  return are_two ? i / inner * uint(s[0]) + i % inner * uint(s[1]) : i * uint(s[1]);
}

// The tile of a workgroup: its first row and column, its batch and the first elements of that, and
// its k. There are workgroups behind the last batch, which have nothing to do.
struct Tile {
  uint row, column, batch, a, b, y, k, end;
};
// Workgroups that run at once share rows of A and columns of B: they go down `high` tiles first.
Tile tile_of_workgroup(uint rows, uint columns) {
  const uint high = 8;
  const uint down = (call.m + rows - 1) / rows, right = (call.n + columns - 1) / columns;
  uint unit = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  const uint other = unit / (down * right), top = unit % (down * right) / (high * right) * high,
             in_strip = unit % (down * right) - top * right, strip = min(high, down - top);
  Tile t;
  t.row = (top + in_strip % strip) * rows;
  t.column = in_strip / strip * columns;
  const uint part = other % call.parts, batch = other / call.parts;
  t.batch = batch;
  t.a = call.first_a + steps(batch, call.batch_in, call.ab, true);
  t.b = call.first_b + steps(batch, call.batch_in, call.bb, true);
  t.y = call.first_y + steps(batch, call.batch_in, call.yb, true) + part * call.y_part;
  t.k = part * call.part;
  t.end = min(call.k, t.k + call.part);
  return t;
}
uint element_of_a(Tile t, uint r, uint k) {
  return t.a + steps(t.row + r, call.m_in, call.am, TWO_M) + steps(k, call.k_in, call.ak, TWO_K);
}
uint element_of_b(Tile t, uint k, uint c) {
  return t.b + steps(t.column + c, call.n_in, call.bn, TWO_N) + steps(k, call.k_in, call.bk, TWO_K);
}
uint element_of_y(Tile t, uint r, uint c) {
  return t.y + steps(t.row + r, call.m_in, call.ym, TWO_M) + steps(t.column + c, call.n_in, call.yn, TWO_N);
}
bool is_in_a(Tile t, uint r, uint k) { return t.row + r < call.m && k < t.end; }
bool is_in_b(Tile t, uint k, uint c) { return t.column + c < call.n && k < t.end; }
bool is_in_y(Tile t, uint r, uint c) { return t.row + r < call.m && t.column + c < call.n; }
