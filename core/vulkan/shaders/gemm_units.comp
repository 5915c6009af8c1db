#version 450
#pragma use_vulkan_memory_model
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_NV_cooperative_matrix : require
// Y = A B of bf16 numbers by the units that a card has for products of small matrices, TM x TK with
// TK x TN; sums are f32. A subgroup has WM x WN of the tile BM x BN of a workgroup. matrices.cpp
// makes what is written here for NVIDIA's first extension, all that older compilers know, one of the
// Khronos extension, and of F16 numbers bfloat16 unless HALF.
//
// HALF: units for fp16 take bf16 numbers. Each row of A, and each column of B, is multiplied by the
// power of two that brings its largest number below 2^15: what is 2^-29 of that and more stays exact.
#include "bf16.glsl"
#include "product.glsl"
layout(constant_id = 0) const uint TM = 8;
layout(constant_id = 1) const uint TN = 8;
layout(constant_id = 2) const uint TK = 8;
layout(constant_id = 3) const uint WG = 8;
layout(constant_id = 4) const uint BM = 8;
layout(constant_id = 5) const uint BN = 8;
layout(constant_id = 6) const uint BK = 8;
layout(constant_id = 7) const uint WM = 8;
layout(constant_id = 8) const uint WN = 8;
layout(constant_id = 9) const bool ROWS_A = false;  // neighbours of A in memory are its rows,
layout(constant_id = 10) const bool ROWS_B = false;  // and of B: k
layout(local_size_x_id = 3) in;
layout(binding = 0) readonly buffer A_ { uint A[]; };
layout(binding = 1) readonly buffer B_ { uint B[]; };
layout(binding = 2) writeonly buffer Y_ { float Y[]; };
// The largest |a| of each batch's rows, and |b| of its columns.
layout(binding = 3) readonly buffer LargestA_ { float largest_a[]; };
layout(binding = 4) readonly buffer LargestB_ { float largest_b[]; };

// Lines of the tiles: pairs of numbers, and a gap that keeps lines in different banks.
const uint line_a = BK / 2 + 4, line_b = BN / 2 + 4;
shared uint tile_a[BM * line_a];
shared uint tile_b[BK * line_b];
shared float tile_y[BM / WM * (BN / WN) * TM * TN];

uint bits_of_a(Tile t, uint r, uint k) {
  if (t.row + r >= call.m || k >= t.end) return 0u;
  const uint i = element_of_a(t, r, k);
  return bits_of_bf16(A[i / 2], i);
}
uint bits_of_b(Tile t, uint k, uint c) {
  if (t.column + c >= call.n || k >= t.end) return 0u;
  const uint i = element_of_b(t, k, c);
  return bits_of_bf16(B[i / 2], i);
}

#ifdef HALF
// The exponents of the powers of two that rows and columns are multiplied by.
int exponent(float largest) {
  return clamp(14 + 127 - int(floatBitsToUint(largest) >> 23), -113, 126);
}
int exponent_of_row(Tile t, uint r) {
  return t.row + r < call.m ? exponent(largest_a[t.batch * call.m + t.row + r]) : 0;
}
int exponent_of_column(Tile t, uint c) {
  return t.column + c < call.n ? exponent(largest_b[t.batch * call.n + t.column + c]) : 0;
}
float power(int e) { return uintBitsToFloat(uint(e + 127) << 23); }
float scaled(uint bits, int e) { return uintBitsToFloat(bits << 16) * power(e); }
uint pair(uint first, uint second, int e, int f) {
  return packHalf2x16(vec2(scaled(first, e), scaled(second, f)));
}
float unscaled(float x, int e) { return x * power(-(e / 2)) * power(-(e - e / 2)); }
#else
int exponent_of_row(Tile t, uint r) { return 0; }
int exponent_of_column(Tile t, uint c) { return 0; }
uint pair(uint first, uint second, int e, int f) { return first | second << 16; }
float unscaled(float x, int e) { return x; }
#endif

void main() {
  const uint t = gl_LocalInvocationIndex;
  const Tile tile = tile_of_workgroup(BM, BN);
  if (tile.batch >= call.batches) return;
  const uint down = gl_SubgroupID / (BN / WN) * WM, right = gl_SubgroupID % (BN / WN) * WN;
  fcoopmatNV<32, gl_ScopeSubgroup, TM, TN> sum[WM / TM * (WN / TN)];
  [[unroll]] for (uint i = 0; i < WM / TM * (WN / TN); ++i)
    sum[i] = fcoopmatNV<32, gl_ScopeSubgroup, TM, TN>(0.0);

  for (uint k = tile.k; k < tile.end; k += BK) {
    for (uint i = t; i < BM * BK / 2; i += WG) {
      const uint r = ROWS_A ? i % BM : i / (BK / 2), q = ROWS_A ? i / BM : i % (BK / 2);
      const int e = exponent_of_row(tile, r);
      tile_a[r * line_a + q] = pair(bits_of_a(tile, r, k + 2 * q), bits_of_a(tile, r, k + 2 * q + 1), e, e);
    }
    for (uint i = t; i < BK * BN / 2; i += WG) {
      const uint c = ROWS_B ? i / BK : i % (BN / 2), q = ROWS_B ? i % BK : i / (BN / 2);
      tile_b[q * line_b + c] = pair(bits_of_b(tile, k + q, 2 * c), bits_of_b(tile, k + q, 2 * c + 1),
                                    exponent_of_column(tile, 2 * c), exponent_of_column(tile, 2 * c + 1));
    }
    barrier();
    [[unroll]] for (uint q = 0; q < BK; q += TK) {
      fcoopmatNV<16, gl_ScopeSubgroup, TM, TK> a[WM / TM];
      [[unroll]] for (uint i = 0; i < WM / TM; ++i)
        coopMatLoadNV(a[i], tile_a, (down + i * TM) * line_a + q / 2, line_a, false);
      [[unroll]] for (uint j = 0; j < WN / TN; ++j) {
        fcoopmatNV<16, gl_ScopeSubgroup, TK, TN> b;
        coopMatLoadNV(b, tile_b, q * line_b + (right + j * TN) / 2, line_b, false);
        [[unroll]] for (uint i = 0; i < WM / TM; ++i)
          sum[i * (WN / TN) + j] = coopMatMulAddNV(a[i], b, sum[i * (WN / TN) + j]);
      }
    }
    barrier();
  }
  // By way of shared memory, as Y may end inside a tile, and has any strides.
  const uint own = gl_SubgroupID * TM * TN;
  [[unroll]] for (uint i = 0; i < WM / TM; ++i)
    [[unroll]] for (uint j = 0; j < WN / TN; ++j) {
      coopMatStoreNV(sum[i * (WN / TN) + j], tile_y, own, TN, false);
      barrier();
      for (uint e = gl_SubgroupInvocationID; e < TM * TN; e += gl_SubgroupSize) {
        const uint r = down + i * TM + e / TN, c = right + j * TN + e % TN;
        if (tile.row + r < call.m && tile.column + c < call.n)
          Y[element_of_y(tile, r, c)] = unscaled(tile_y[own + e], exponent_of_row(tile, r) + exponent_of_column(tile, c));
      }
      barrier();
    }
}
