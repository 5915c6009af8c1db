// The innermost loops of matrix products: tiles that live in registers while a sum runs.
//
// A tile is as many rows as leave registers for its columns, and two registers wide. Numbers of A
// are read where they lie and go to all lanes, so that A is never copied; B is read register by
// register.
#include "core/cpu/lanes.hpp"
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace tete::cpu_kernels::TETE_ISA {
namespace {

constexpr int tile_rows = register_count == 32 ? 12 : 6;
constexpr int tile_registers = 2;  // side by side

typedef uint32_t Words __attribute__((vector_size(register_bytes), aligned(4), may_alias));

// One step of a sum: one product.
template <class T>
struct Single {
  using Number = T;
  using Word = T;
  using Wide = Register<T>;
  using Sum = Register<T>;
  TETE_INLINE Sum step(Sum sum, T a, Wide b) { return sum + a * b; }
};

// Two products of bfloat16 numbers, of which a word holds two.
struct Pairs {
  using Number = float;
  using Word = uint32_t;
  using Wide = Words;
#if defined(__AVX512BF16__)
  using Sum = __m512;
  TETE_INLINE Sum step(Sum sum, uint32_t a, Words b) {
    return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, a - Words{}),
                            __builtin_bit_cast(__m512bh, b));
  }
#else
  using Sum = Register<float>;
  TETE_INLINE Sum low(Words w) { return __builtin_bit_cast(Sum, w << 16); }
  TETE_INLINE Sum high(Words w) { return __builtin_bit_cast(Sum, w & 0xFFFF0000u); }
  TETE_INLINE Sum step(Sum sum, uint32_t a, Words b) {
    const Words both = a - Words{};
    return sum + low(both) * low(b) + high(both) * high(b);
  }
#endif
};
template <class How>
using Tile = void(Index k, const typename How::Word* a, Index ra, Index pa,
                  const typename How::Word* b, Index pb, typename How::Number* c, Index rc, Index n,
                  bool add);

template <class How, int R, int C>
void tile(Index k, const typename How::Word* a, Index ra, Index pa, const typename How::Word* b,
          Index pb, typename How::Number* c, Index rc, Index n, bool add) {
  using T = typename How::Number;
  using Wide = typename How::Wide;
  constexpr int lanes = width<T>;
  typename How::Sum sum[R][C];
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < C; ++j) sum[r][j] = typename How::Sum{};
  for (Index p = 0; p < k; ++p, a += pa, b += pb) {
    Wide wide[C];
    for (int j = 0; j < C; ++j) wide[j] = *reinterpret_cast<const Wide*>(b + j * lanes);
    // Three rows to an address: a register, twice it, and none.
    const typename How::Word* three = a;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const typename How::Word one = three[r % 3 * ra];
#pragma GCC unroll 2
      for (int j = 0; j < C; ++j) sum[r][j] = How::step(sum[r][j], one, wide[j]);
      if (r % 3 == 2) three += 3 * ra;
    }
  }
  for (int r = 0; r < R; ++r, c += rc) {
    if (n == C * lanes) {
      for (int j = 0; j < C; ++j)
        store<T>(c + j * lanes,
                 add ? load(c + j * lanes) + Register<T>(sum[r][j]) : Register<T>(sum[r][j]));
      continue;
    }
    T row[C * lanes];
    for (int j = 0; j < C; ++j) store<T>(row + j * lanes, Register<T>(sum[r][j]));
    for (Index j = 0; j < n; ++j) c[j] = add ? c[j] + row[j] : row[j];
  }
}

template <class How, int R>
struct Tiles {
  TETE_INLINE Tile<How>* of(Index rows, bool narrow) {
    if (rows == R) return narrow ? tile<How, R, 1> : tile<How, R, tile_registers>;
    return Tiles<How, R - 1>::of(rows, narrow);
  }
};
template <class How>
struct Tiles<How, 0> {
  TETE_INLINE Tile<How>* of(Index, bool) { return nullptr; }
};

template <class How>
void product(Index R, Index k, const typename How::Word* a, Index ra, Index pa,
             const typename How::Word* b, Index pb, typename How::Number* c, Index rc, Index n,
             bool add) {
  Tiles<How, tile_rows>::of(R, n <= width<typename How::Number>)(k, a, ra, pa, b, pb, c, rc, n,
                                                                 add);
}

// The upper half of a float, rounded to nearest, ties to even; a NaN stays one.
TETE_INLINE uint32_t rounded(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t up = bits + 0x7FFFu + (bits >> 16 & 1u);
  return (bits & 0x7FFFFFFFu) > 0x7F800000u ? bits | 0x400000u : up;
}
TETE_INLINE uint32_t pair(float low, float high) {
  return rounded(low) >> 16 | (rounded(high) & 0xFFFF0000u);
}

#if defined(__AVX512BF16__)
// The instruction rounds two registers to one: `low` to its lower half.
TETE_INLINE __m512i rounded(const float* low, const float* high) {
  return __builtin_bit_cast(__m512i,
                            _mm512_cvtne2ps_pbh(_mm512_loadu_ps(high), _mm512_loadu_ps(low)));
}
TETE_INLINE Index pair_whole_rows(const float* low, const float* high, uint32_t* pairs, Index n) {
  // 0, 16, 1, 17, …
  const __m512i counting = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i zip = _mm512_or_si512(
      counting, _mm512_slli_epi32(_mm512_add_epi32(counting, _mm512_set1_epi32(16)), 16));
  Index j = 0;
  for (; j + 16 <= n; j += 16)
    _mm512_storeu_si512(pairs + j, _mm512_permutexvar_epi16(zip, rounded(low + j, high + j)));
  return j;
}
TETE_INLINE Index pair_whole_steps(const float* x, uint32_t* pairs, Index n) {
  Index j = 0;
  for (; j + 16 <= n; j += 16) _mm512_storeu_si512(pairs + j, rounded(x + 2 * j, x + 2 * j + 16));
  return j;
}
#else
TETE_INLINE Index pair_whole_rows(const float*, const float*, uint32_t*, Index) { return 0; }
TETE_INLINE Index pair_whole_steps(const float*, uint32_t*, Index) { return 0; }
#endif

void pair_rows(const float* x, Index rx, Index rows, Index n, uint32_t* pairs, Index stride) {
  for (Index r = 0; r < rows; ++r, x += 2 * rx, pairs += stride)
    for (Index j = pair_whole_rows(x, x + rx, pairs, n); j < n; ++j)
      pairs[j] = pair(x[j], x[rx + j]);
}

void pair_steps(const float* x, uint32_t* pairs, Index n) {
  for (Index j = pair_whole_steps(x, pairs, n); j < n; ++j) pairs[j] = pair(x[2 * j], x[2 * j + 1]);
}

template <class T>
void panel(const T* x, Index rx, Index k, T* y) {
  for (Index p = 0; p < k; ++p, x += rx)
    for (int j = 0; j < tile_registers; ++j, y += width<T>) store<T>(y, load(x + j * width<T>));
}

// With fewer and shorter registers these are no faster than BLAS.
template <class T>
void fill(Rows<T>& rows) {
  rows.product = register_bytes > 32 ? product<Single<T>> : nullptr;
  rows.panel = panel<T>;
  rows.product_rows = tile_rows;
  rows.product_columns = tile_registers * width<T>;
}

}  // namespace

void fill_product(Rows<float>& rows) { fill(rows); }
void fill_product(Rows<double>& rows) { fill(rows); }
void fill_product(PairRows& rows) {
  rows = {product<Pairs>, tile_rows, tile_registers * width<float>, pair_rows, pair_steps};
}

}  // namespace tete::cpu_kernels::TETE_ISA
