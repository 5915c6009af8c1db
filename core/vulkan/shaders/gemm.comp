#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
// Y = A B. The tile BM x BN of a workgroup and TM x TN of an invocation are chosen when the pipeline
// is made; all are multiples of 4. While a tile's products are summed, the next k is on its way from
// memory to registers.
#define FORM 6
#include "product.glsl"
#ifdef DOUBLE
#define REAL double
#define REAL4 dvec4
#else
#define REAL float
#define REAL4 vec4
#endif
layout(constant_id = 0) const uint WG = 32;
layout(constant_id = 1) const uint BM = 16;
layout(constant_id = 2) const uint BN = 32;
layout(constant_id = 3) const uint BK = 16;
layout(constant_id = 4) const uint TM = 4;
layout(constant_id = 5) const uint TN = 4;
layout(local_size_x_id = 0) in;
// Numbers, and four of them at once.
#ifdef BF16
layout(binding = 0) readonly buffer A_ { uint A[]; };
layout(binding = 1) readonly buffer B_ { uint B[]; };
layout(binding = 0) readonly buffer A4_ { uvec2 A4[]; };
layout(binding = 1) readonly buffer B4_ { uvec2 B4[]; };
#include "bf16.glsl"
float read(uint word, uint i) { return uintBitsToFloat(bits_of_bf16(word, i) << 16); }
#define READ(X, i) read(X[(i) / 2], i)
vec4 read4(uvec2 x) { return uintBitsToFloat(uvec4(x.x << 16, x.x & 0xFFFF0000u, x.y << 16, x.y & 0xFFFF0000u)); }
#else
layout(binding = 0) readonly buffer A_ { REAL A[]; };
layout(binding = 1) readonly buffer B_ { REAL B[]; };
layout(binding = 0) readonly buffer A4_ { REAL4 A4[]; };
layout(binding = 1) readonly buffer B4_ { REAL4 B4[]; };
#define READ(X, i) X[i]
#define read4(x) x
#endif
layout(binding = 2) writeonly buffer Y_ { REAL Y[]; };
layout(binding = 2) writeonly buffer Y4_ { REAL4 Y4[]; };

// [k, four rows] and [k, four columns], and a gap that keeps lines in different banks.
const uint line_a = BM / 4 + 1, line_b = BN / 4 + 1;
shared REAL4 tile_a[BK * line_a];
shared REAL4 tile_b[BK * line_b];

// Fours of the tiles are counted along what is dense in memory: the row or column, and k, of the first.
uvec2 place_of_a(uint i) {
  return ROWS_A ? uvec2(i % (BM / 4) * 4, i / (BM / 4)) : uvec2(i / (BK / 4), i % (BK / 4) * 4);
}
uvec2 place_of_b(uint i) {
  return ROWS_B ? uvec2(i / (BK / 4), i % (BK / 4) * 4) : uvec2(i % (BN / 4) * 4, i / (BN / 4));
}
REAL4 four_of_a(Tile t, uvec2 at, uint k) {
  REAL4 x = REAL4(0.0);
  if (WHOLE_A) {
    if (is_in_a(t, at.x, k + at.y)) x = read4(A4[element_of_a(t, at.x, k + at.y) / 4]);
    return x;
  }
  [[unroll]] for (uint c = 0; c < 4; ++c) {
    const uint r = at.x + (ROWS_A ? c : 0), q = k + at.y + (ROWS_A ? 0 : c);
    if (is_in_a(t, r, q)) x[c] = READ(A, element_of_a(t, r, q));
  }
  return x;
}
REAL4 four_of_b(Tile t, uvec2 at, uint k) {
  REAL4 x = REAL4(0.0);
  if (WHOLE_B) {
    if (is_in_b(t, k + at.y, at.x)) x = read4(B4[element_of_b(t, k + at.y, at.x) / 4]);
    return x;
  }
  [[unroll]] for (uint c = 0; c < 4; ++c) {
    const uint q = k + at.y + (ROWS_B ? c : 0), column = at.x + (ROWS_B ? 0 : c);
    if (is_in_b(t, q, column)) x[c] = READ(B, element_of_b(t, q, column));
  }
  return x;
}
void put_a(uvec2 at, REAL4 x) {
  if (ROWS_A) tile_a[at.y * line_a + at.x / 4] = x;
  else [[unroll]] for (uint c = 0; c < 4; ++c) tile_a[(at.y + c) * line_a + at.x / 4][at.x % 4] = x[c];
}
void put_b(uvec2 at, REAL4 x) {
  if (!ROWS_B) tile_b[at.y * line_b + at.x / 4] = x;
  else [[unroll]] for (uint c = 0; c < 4; ++c) tile_b[(at.y + c) * line_b + at.x / 4][at.x % 4] = x[c];
}

const uint fours_a = BM * BK / 4, each_a = (fours_a + WG - 1) / WG;
const uint fours_b = BN * BK / 4, each_b = (fours_b + WG - 1) / WG;

void main() {
  const uint t = gl_LocalInvocationIndex;
  const Tile tile = tile_of_workgroup(BM, BN);
  if (tile.batch >= call.batches) return;
  // An invocation has four neighbours of every `down` rows, and of every `right` columns.
  const uint tx = t % (BN / TN), ty = t / (BN / TN), down = BM / TM * 4, right = BN / TN * 4;

  REAL4 sum[TM * TN / 4], next_a[each_a], next_b[each_b];
  [[unroll]] for (uint i = 0; i < TM * TN / 4; ++i) sum[i] = REAL4(0.0);
  for (uint k = tile.k;; k += BK) {
    const bool is_end = k >= tile.end;
    if (!is_end) {
      [[unroll]] for (uint i = 0; i < each_a; ++i) next_a[i] = four_of_a(tile, place_of_a(t + i * WG), k);
      [[unroll]] for (uint i = 0; i < each_b; ++i) next_b[i] = four_of_b(tile, place_of_b(t + i * WG), k);
    }
    for (uint q = 0; q < (k > tile.k ? BK : 0); ++q) {
      REAL4 left[TM / 4], top[TN / 4];
      [[unroll]] for (uint i = 0; i < TM / 4; ++i) left[i] = tile_a[q * line_a + ty + i * (BM / TM)];
      [[unroll]] for (uint j = 0; j < TN / 4; ++j) top[j] = tile_b[q * line_b + tx + j * (BN / TN)];
      [[unroll]] for (uint i = 0; i < TM; ++i)
        [[unroll]] for (uint j = 0; j < TN / 4; ++j)
          sum[i * (TN / 4) + j] = fma(REAL4(left[i / 4][i % 4]), top[j], sum[i * (TN / 4) + j]);
    }
    if (is_end) break;
    barrier();
    [[unroll]] for (uint i = 0; i < each_a; ++i)
      if (t + i * WG < fours_a) put_a(place_of_a(t + i * WG), next_a[i]);
    [[unroll]] for (uint i = 0; i < each_b; ++i)
      if (t + i * WG < fours_b) put_b(place_of_b(t + i * WG), next_b[i]);
    barrier();
  }
  [[unroll]] for (uint i = 0; i < TM; ++i)
    [[unroll]] for (uint j = 0; j < TN / 4; ++j) {
      const uint r = ty * 4 + i / 4 * down + i % 4, c = tx * 4 + j * right;
      if (WHOLE_Y) {
        if (is_in_y(tile, r, c)) Y4[element_of_y(tile, r, c) / 4] = sum[i * (TN / 4) + j];
        continue;
      }
      [[unroll]] for (uint e = 0; e < 4; ++e)
        if (is_in_y(tile, r, c + e)) Y[element_of_y(tile, r, c + e)] = sum[i * (TN / 4) + j][e];
    }
}
