// Products of bfloat16 numbers by Intel's AMX, whose registers are tiles: 16 lines of 64 bytes.
//
// One instruction takes 16 lines of 16 pairs of A and 16 lines of 16 words of B, and adds their
// product to 16 x 16 sums. It sums the first numbers of the 16 pairs and the second ones apart,
// adds both, and adds that to the sum: pairs of zeros behind the last ones change nothing.
// Denormals are taken for 0 and made 0, whatever the thread does with them elsewhere.
#include <immintrin.h>

#include "core/cpu/lanes.hpp"

namespace tete::cpu_kernels::TETE_ISA {
namespace {

constexpr Index side = 16;        // lines of a tile, and words of a line
constexpr Index most = 2 * side;  // rows and columns of a product

struct Configuration {
  uint8_t palette, first_line, reserved[14];
  uint16_t line_bytes[16];
  uint8_t lines[16];
};
alignas(64) constexpr Configuration whole_tiles = {
    1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

void begin() { _tile_loadconfig(&whole_tiles); }
void end() { _tile_release(); }

// Tiles 0 and 1 are sums of the first 16 rows, 2 and 3 of the others; 4 and 5 are A's, 6 and 7 B's.
template <bool tall, bool wide>
void tile(Index k, const Bf16* a, Index ra, const uint32_t* b, Index pb, float* c, Index rc,
          bool add) {
  const Index a_line = ra * 2, b_line = pb * 4, c_line = rc * 4;
  float* const below = c + side * rc;
  __asm__ volatile("" ::: "memory");  // GCC does not know that a tile reads memory
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (add) {
    _tile_loadd(0, c, c_line);
    if (wide) _tile_loadd(1, c + side, c_line);
    if (tall) _tile_loadd(2, below, c_line);
    if (tall && wide) _tile_loadd(3, below + side, c_line);
  }
  for (Index p = 0; p < k; p += side, a += 2 * side, b += side * pb) {
    _tile_loadd(4, a, a_line);
    _tile_loadd(6, b, b_line);
    _tile_dpbf16ps(0, 4, 6);
    if (wide) _tile_loadd(7, b + side, b_line);
    if (wide) _tile_dpbf16ps(1, 4, 7);
    if (tall) _tile_loadd(5, a + side * ra, a_line);
    if (tall) _tile_dpbf16ps(2, 5, 6);
    if (tall && wide) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_line);
  if (wide) _tile_stored(1, c + side, c_line);
  if (tall) _tile_stored(2, below, c_line);
  if (tall && wide) _tile_stored(3, below + side, c_line);
}

void copy(const float* x, Index rx, float* y, Index ry, Index rows, Index n) {
  for (Index r = 0; r < rows; ++r, x += rx, y += ry)
    for (Index j = 0; j < n; ++j) y[j] = x[j];
}

void product(Index R, Index k, const Bf16* a, Index ra, Index, const uint32_t* b, Index pb,
             Index nb, float* c, Index rc, Index n, bool add) {
  const bool tall = R > side;
  for (; n > 0; n -= most, b += nb, c += most) {
    const Index some = n < most ? n : most;
    const bool wide = some > side;
    const auto make = tall   ? wide ? tile<true, true> : tile<true, false>
                        : wide ? tile<false, true>
                             : tile<false, false>;
    if (R % side == 0 && some % side == 0) {
      make(k, a, ra, b, pb, c, rc, add);
      continue;
    }
    float whole[most * most] = {};
    if (add) copy(c, rc, whole, most, R, some);
    make(k, a, ra, b, pb, whole, most, add);
    copy(whole, most, c, rc, R, some);
  }
}

}  // namespace

void fill_product(Table& table) {
  PairRows& pairs = table.pairs;
  pairs.product = product, pairs.begin = begin, pairs.end = end;
  pairs.product_rows = pairs.product_columns = most, pairs.together = side;
}

}  // namespace tete::cpu_kernels::TETE_ISA
