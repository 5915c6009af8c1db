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
#define FORM 9
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
layout(local_size_x_id = 3) in;
// Numbers by twos, and eight at once.
layout(binding = 0) readonly buffer A_ { uint A[]; };
layout(binding = 1) readonly buffer B_ { uint B[]; };
layout(binding = 0) readonly buffer A8_ { uvec4 A8[]; };
layout(binding = 1) readonly buffer B8_ { uvec4 B8[]; };
layout(binding = 2) writeonly buffer Y_ { float Y[]; };
// The largest |a| of each batch's rows, and |b| of its columns.
layout(binding = 3) readonly buffer LargestA_ { float largest_a[]; };
layout(binding = 4) readonly buffer LargestB_ { float largest_b[]; };

// Lines of the tiles are what is dense in memory, by eights, and a gap that keeps lines in different
// banks.
shared uvec4 tile_a[BM * BK / 8 + BM + BK];
shared uvec4 tile_b[BK * BN / 8 + BN + BK];
shared float tile_y[BM / WM * (BN / WN) * TM * TN];
uint dense_a() { return ROWS_A ? BM / 8 : BK / 8; }
uint dense_b() { return ROWS_B ? BK / 8 : BN / 8; }
uint line_a() { return dense_a() + 1; }
uint line_b() { return dense_b() + 1; }

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
uint scaled(uint bits, int e) {
  return packHalf2x16(vec2(uintBitsToFloat(bits << 16) * power(e), 0.0));
}
float unscaled(float x, int e) { return x * power(-(e / 2)) * power(-(e - e / 2)); }
#else
int exponent_of_row(Tile t, uint r) { return 0; }
int exponent_of_column(Tile t, uint c) { return 0; }
uint scaled(uint bits, int e) { return bits; }
float unscaled(float x, int e) { return x; }
#endif

// Eights are counted line by line: the row or column, and k, of the first number.
uvec2 place_of_a(uint i) {
  const uint line = i / dense_a(), along = i % dense_a() * 8;
  return ROWS_A ? uvec2(along, line) : uvec2(line, along);
}
uvec2 place_of_b(uint i) {
  const uint line = i / dense_b(), along = i % dense_b() * 8;
  return ROWS_B ? uvec2(line, along) : uvec2(along, line);
}
uvec4 eight_of_a(Tile t, uvec2 at, uint k) {
  uvec4 x = uvec4(0);
  if (WHOLE_A) {
    if (is_in_a(t, at.x, k + at.y)) x = A8[element_of_a(t, at.x, k + at.y) / 8];
    return x;
  }
  [[unroll]] for (uint c = 0; c < 8; ++c) {
    const uint r = at.x + (ROWS_A ? c : 0), q = k + at.y + (ROWS_A ? 0 : c);
    if (!is_in_a(t, r, q)) continue;
    const uint i = element_of_a(t, r, q);
    x[c / 2] |= scaled(bits_of_bf16(A[i / 2], i), exponent_of_row(t, r)) << c % 2 * 16;
  }
  return x;
}
uvec4 eight_of_b(Tile t, uvec2 at, uint k) {
  uvec4 x = uvec4(0);
  if (WHOLE_B) {
    if (is_in_b(t, k + at.y, at.x)) x = B8[element_of_b(t, k + at.y, at.x) / 8];
    return x;
  }
  [[unroll]] for (uint c = 0; c < 8; ++c) {
    const uint q = k + at.y + (ROWS_B ? c : 0), column = at.x + (ROWS_B ? 0 : c);
    if (!is_in_b(t, q, column)) continue;
    const uint i = element_of_b(t, q, column);
    x[c / 2] |= scaled(bits_of_bf16(B[i / 2], i), exponent_of_column(t, column)) << c % 2 * 16;
  }
  return x;
}

#define MATRIX(bits, rows, columns) fcoopmatNV<bits, gl_ScopeSubgroup, rows, columns>
const uint eights_a = BM * BK / 8, each_a = (eights_a + WG - 1) / WG;
const uint eights_b = BN * BK / 8, each_b = (eights_b + WG - 1) / WG;
const uint tiles_m = WM / TM, tiles_n = WN / TN;

void main() {
  const uint t = gl_LocalInvocationIndex;
  const Tile tile = tile_of_workgroup(BM, BN);
  if (tile.batch >= call.batches) return;
  const uint down = gl_SubgroupID / (BN / WN) * WM, right = gl_SubgroupID % (BN / WN) * WN;
  MATRIX(32, TM, TN) sum[tiles_m * tiles_n];
  [[unroll]] for (uint i = 0; i < tiles_m * tiles_n; ++i) sum[i] = MATRIX(32, TM, TN)(0.0);

  // While a tile is multiplied, the next k is on its way from memory to registers.
  uvec4 next_a[each_a], next_b[each_b];
  for (uint k = tile.k;; k += BK) {
    const bool is_end = k >= tile.end;
    if (!is_end) {
      [[unroll]] for (uint i = 0; i < each_a; ++i) next_a[i] = eight_of_a(tile, place_of_a(t + i * WG), k);
      [[unroll]] for (uint i = 0; i < each_b; ++i) next_b[i] = eight_of_b(tile, place_of_b(t + i * WG), k);
    }
    if (k > tile.k) {
      [[unroll]] for (uint q = 0; q < BK; q += TK) {
        MATRIX(16, TM, TK) a[tiles_m];
        [[unroll]] for (uint i = 0; i < tiles_m; ++i) {
          const uint r = down + i * TM;
          if (ROWS_A) coopMatLoadNV(a[i], tile_a, q * line_a() + r / 8, line_a(), true);
          else coopMatLoadNV(a[i], tile_a, r * line_a() + q / 8, line_a(), false);
        }
        [[unroll]] for (uint j = 0; j < tiles_n; ++j) {
          MATRIX(16, TK, TN) b;
          const uint c = right + j * TN;
          if (ROWS_B) coopMatLoadNV(b, tile_b, c * line_b() + q / 8, line_b(), true);
          else coopMatLoadNV(b, tile_b, q * line_b() + c / 8, line_b(), false);
          [[unroll]] for (uint i = 0; i < tiles_m; ++i)
            sum[i * tiles_n + j] = coopMatMulAddNV(a[i], b, sum[i * tiles_n + j]);
        }
      }
    }
    if (is_end) break;
    barrier();
    [[unroll]] for (uint i = 0; i < each_a; ++i) {
      const uint e = t + i * WG;
      if (e < eights_a) tile_a[e / dense_a() * line_a() + e % dense_a()] = next_a[i];
    }
    [[unroll]] for (uint i = 0; i < each_b; ++i) {
      const uint e = t + i * WG;
      if (e < eights_b) tile_b[e / dense_b() * line_b() + e % dense_b()] = next_b[i];
    }
    barrier();
  }
  const uint own = gl_SubgroupID * TM * TN;
  [[unroll]] for (uint i = 0; i < tiles_m; ++i)
    [[unroll]] for (uint j = 0; j < tiles_n; ++j) {
      const uint top = down + i * TM, left = right + j * TN;
      if (WHOLE_Y && is_in_y(tile, top + TM - 1, left + TN - 1)) {
        coopMatStoreNV(sum[i * tiles_n + j], Y, element_of_y(tile, top, left), uint(call.ym[1]), false);
        continue;
      }
      // By way of shared memory, as Y may end inside a tile, and has any strides.
      coopMatStoreNV(sum[i * tiles_n + j], tile_y, own, TN, false);
      subgroupBarrier();
      for (uint e = gl_SubgroupInvocationID; e < TM * TN; e += gl_SubgroupSize) {
        const uint r = top + e / TN, c = left + e % TN;
        if (is_in_y(tile, r, c))
          Y[element_of_y(tile, r, c)] = unscaled(tile_y[own + e], exponent_of_row(tile, r) + exponent_of_column(tile, c));
      }
      subgroupBarrier();
    }
}
