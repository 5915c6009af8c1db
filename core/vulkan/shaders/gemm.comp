#version 450
#extension GL_EXT_control_flow_attributes : require
// Y = A B for matrices in any strides. Rows m (of A and Y), columns n (of B and Y), what is summed,
// k, and the batch are one or two dimensions each: x_in is the size of the inner one. A long sum is
// cut into `parts` of k, of which each has a Y of its own. The tile BM x BN of a workgroup and
// TM x TN of an invocation are chosen when the pipeline is made.
#ifdef DOUBLE
#define REAL double
#else
#define REAL float
#endif
layout(constant_id = 0) const uint WG = 32;
layout(constant_id = 1) const uint BM = 8;
layout(constant_id = 2) const uint BN = 32;
layout(constant_id = 3) const uint BK = 32;
layout(constant_id = 4) const uint TM = 1;
layout(constant_id = 5) const uint TN = 8;
layout(constant_id = 6) const bool ROWS_A = false;  // neighbours of A in memory are its rows,
layout(constant_id = 7) const bool ROWS_B = false;  // and of B: k
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Call {
  uint m, n, k, m_in, n_in, k_in, batch_in;
  uint first_a, first_b, first_y;
  int am[2], ym[2], bn[2], yn[2], ak[2], bk[2], ab[2], bb[2], yb[2];  // steps, outer and inner
  uint parts, part, y_part;
} call;
#ifdef BF16
layout(binding = 0) readonly buffer A_ { uint A[]; };
layout(binding = 1) readonly buffer B_ { uint B[]; };
float number(uint word, uint i) { return uintBitsToFloat(i % 2 == 0 ? word << 16 : word & 0xFFFF0000u); }
#define READ(X, i) number(X[(i) / 2], i)
#else
layout(binding = 0) readonly buffer A_ { REAL A[]; };
layout(binding = 1) readonly buffer B_ { REAL B[]; };
#define READ(X, i) X[i]
#endif
layout(binding = 2) writeonly buffer Y_ { REAL Y[]; };

shared REAL tile_a[BK * (BM + 1)];
shared REAL tile_b[BK * (BN + 1)];

uint steps(uint i, uint inner, int s[2]) { return i / inner * uint(s[0]) + i % inner * uint(s[1]); }

void main() {
  const uint t = gl_LocalInvocationIndex, down = (call.m + BM - 1) / BM, right = (call.n + BN - 1) / BN;
  uint unit = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  const uint column = unit % right * BN;
  unit /= right;
  const uint row = unit % down * BM;
  unit /= down;
  const uint part = unit % call.parts, batch = unit / call.parts;
  const uint a = call.first_a + steps(batch, call.batch_in, call.ab),
             b = call.first_b + steps(batch, call.batch_in, call.bb),
             y = call.first_y + steps(batch, call.batch_in, call.yb) + part * call.y_part;
  const uint across = BN / TN, tx = t % across, ty = t / across;
  const uint end = min(call.k, (part + 1) * call.part);

  REAL sum[TM * TN];
  [[unroll]] for (uint i = 0; i < TM * TN; ++i) sum[i] = REAL(0.0);
  for (uint k = part * call.part; k < end; k += BK) {
    for (uint i = t; i < BM * BK; i += WG) {
      const uint r = ROWS_A ? i % BM : i / BK, q = ROWS_A ? i / BM : i % BK;
      const bool is_inside = row + r < call.m && k + q < end;
      const uint at = a + steps(row + r, call.m_in, call.am) + steps(k + q, call.k_in, call.ak);
      tile_a[q * (BM + 1) + r] = is_inside ? READ(A, at) : REAL(0.0);
    }
    for (uint i = t; i < BN * BK; i += WG) {
      const uint c = ROWS_B ? i / BK : i % BN, q = ROWS_B ? i % BK : i / BN;
      const bool is_inside = column + c < call.n && k + q < end;
      const uint at = b + steps(column + c, call.n_in, call.bn) + steps(k + q, call.k_in, call.bk);
      tile_b[q * (BN + 1) + c] = is_inside ? READ(B, at) : REAL(0.0);
    }
    barrier();
    for (uint q = 0; q < BK; ++q) {
      REAL left[TM], top[TN];
      [[unroll]] for (uint i = 0; i < TM; ++i) left[i] = tile_a[q * (BM + 1) + ty + i * (BM / TM)];
      [[unroll]] for (uint j = 0; j < TN; ++j) top[j] = tile_b[q * (BN + 1) + tx + j * across];
      [[unroll]] for (uint i = 0; i < TM; ++i)
        [[unroll]] for (uint j = 0; j < TN; ++j) sum[i * TN + j] = fma(left[i], top[j], sum[i * TN + j]);
    }
    barrier();
  }
  [[unroll]] for (uint i = 0; i < TM; ++i)
    [[unroll]] for (uint j = 0; j < TN; ++j) {
      const uint r = row + ty + i * (BM / TM), c = column + tx + j * across;
      if (r < call.m && c < call.n)
        Y[y + steps(r, call.m_in, call.ym) + steps(c, call.n_in, call.yn)] = sum[i * TN + j];
    }
}
