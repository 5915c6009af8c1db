#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
// Y = A B. The tile BM x BN of a workgroup and TM x TN of an invocation are chosen when the pipeline
// is made.
#include "product.glsl"
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
#ifdef BF16
layout(binding = 0) readonly buffer A_ { uint A[]; };
layout(binding = 1) readonly buffer B_ { uint B[]; };
#include "bf16.glsl"
#define READ(X, i) uintBitsToFloat(bits_of_bf16(X[(i) / 2], i) << 16)
#else
layout(binding = 0) readonly buffer A_ { REAL A[]; };
layout(binding = 1) readonly buffer B_ { REAL B[]; };
#define READ(X, i) X[i]
#endif
layout(binding = 2) writeonly buffer Y_ { REAL Y[]; };

shared REAL tile_a[BK * (BM + 1)];
shared REAL tile_b[BK * (BN + 1)];

void main() {
  const uint t = gl_LocalInvocationIndex;
  const Tile tile = tile_of_workgroup(BM, BN);
  if (tile.batch >= call.batches) return;
  const uint across = BN / TN, tx = t % across, ty = t / across;

  REAL sum[TM * TN];
  [[unroll]] for (uint i = 0; i < TM * TN; ++i) sum[i] = REAL(0.0);
  for (uint k = tile.k; k < tile.end; k += BK) {
    for (uint i = t; i < BM * BK; i += WG) {
      const uint r = ROWS_A ? i % BM : i / BK, q = ROWS_A ? i / BM : i % BK;
      const bool is_inside = tile.row + r < call.m && k + q < tile.end;
      const uint at = element_of_a(tile, r, k + q);
      tile_a[q * (BM + 1) + r] = is_inside ? READ(A, at) : REAL(0.0);
    }
    for (uint i = t; i < BN * BK; i += WG) {
      const uint c = ROWS_B ? i / BK : i % BN, q = ROWS_B ? i % BK : i / BN;
      const bool is_inside = tile.column + c < call.n && k + q < tile.end;
      const uint at = element_of_b(tile, k + q, c);
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
      const uint r = ty + i * (BM / TM), c = tx + j * across;
      if (tile.row + r < call.m && tile.column + c < call.n) Y[element_of_y(tile, r, c)] = sum[i * TN + j];
    }
}
