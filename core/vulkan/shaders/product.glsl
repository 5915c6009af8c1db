// A product Y = A B of matrices in any strides, as the words of a call tell it. Rows m (of A and Y),
// columns n (of B and Y), what is summed, k, and the batch are one or two dimensions each: x_in is
// the size of the inner one. A long sum is cut into `parts` of k, of which each has a Y of its own.
layout(push_constant) uniform Call {
  uint m, n, k, m_in, n_in, k_in, batch_in;
  uint first_a, first_b, first_y;
  int am[2], ym[2], bn[2], yn[2], ak[2], bk[2], ab[2], bb[2], yb[2];  // steps, outer and inner
  uint parts, part, y_part, batches;
} call;

uint steps(uint i, uint inner, int s[2]) { return i / inner * uint(s[0]) + i % inner * uint(s[1]); }

// The tile of a workgroup: its first row and column, its batch and the first elements of that, and
// its k. There are workgroups behind the last batch, which have nothing to do.
struct Tile {
  uint row, column, batch, a, b, y, k, end;
};
Tile tile_of_workgroup(uint rows, uint columns) {
  const uint down = (call.m + rows - 1) / rows, right = (call.n + columns - 1) / columns;
  uint unit = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  Tile t;
  t.column = unit % right * columns;
  unit /= right;
  t.row = unit % down * rows;
  unit /= down;
  const uint part = unit % call.parts, batch = unit / call.parts;
  t.batch = batch;
  t.a = call.first_a + steps(batch, call.batch_in, call.ab);
  t.b = call.first_b + steps(batch, call.batch_in, call.bb);
  t.y = call.first_y + steps(batch, call.batch_in, call.yb) + part * call.y_part;
  t.k = part * call.part;
  t.end = min(call.k, t.k + call.part);
  return t;
}
uint element_of_a(Tile t, uint r, uint k) {
  return t.a + steps(t.row + r, call.m_in, call.am) + steps(k, call.k_in, call.ak);
}
uint element_of_b(Tile t, uint k, uint c) {
  return t.b + steps(t.column + c, call.n_in, call.bn) + steps(k, call.k_in, call.bk);
}
uint element_of_y(Tile t, uint r, uint c) {
  return t.y + steps(t.row + r, call.m_in, call.ym) + steps(t.column + c, call.n_in, call.yn);
}
