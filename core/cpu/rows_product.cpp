// The innermost loops of matrix products: tiles that stay in registers while a sum runs.
//
// A tile is two registers wide and has as many rows as registers allow. Each number of A is read in
// place and goes to all lanes, so that A is never copied; B is read register by register.
#include "core/cpu/lanes.hpp"
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace tete::cpu_kernels::TETE_ISA {
namespace {

constexpr int tile_rows = register_count == 32 ? 12 : 6;
constexpr int tile_registers = 2;                   // columns of registers
constexpr Index steps_ahead = 32;                   // how early a sum's lines of B are fetched
static_assert(tile_rows <= PartRows<float>::most);  // attention takes their softmax together

// One step of a sum: one product.
template <class T>
struct Single {
  using Number = T;
  using Element = T;
  using Word = T;
  using Wide = Register<T>;
  using Sum = Register<T>;
  TETE_INLINE Word read(const Element* a) { return *a; }
  TETE_INLINE Wide read_register(const Word* b) { return load(b); }
  TETE_INLINE Sum step(Sum sum, T a, Wide b) { return sum + a * b; }
};

#if defined(__AVX512BF16__)
typedef uint32_t Words __attribute__((vector_size(register_bytes)));
typedef uint32_t WordsInMemory __attribute__((vector_size(register_bytes), aligned(4), may_alias));

// One step of a sum of bfloat16 numbers: two products, as a word has two numbers.
struct Pairs {
  using Number = float;
  using Element = Bf16;
  using Word = uint32_t;
  using Wide = Words;
  using Sum = __m512;
  TETE_INLINE Word read(const Element* a) {
    Word pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    return pair;
  }
  TETE_INLINE Wide read_register(const Word* b) {
    return *reinterpret_cast<const WordsInMemory*>(b);
  }
  TETE_INLINE Sum step(Sum sum, uint32_t a, Words b) {
    return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, a - Words{}),
                            __builtin_bit_cast(__m512bh, b));
  }
};
#endif

// Adds k steps, written out by fours: a loop's own instructions are few beside them.
template <class How, int R, int C, class Row, class Step>
TETE_INLINE void add_steps(Index k, const typename How::Element* a, Row ra, Step pa,
                           const typename How::Word* b, Index pb, typename How::Sum (&sum)[R][C]) {
  // A short sum would only fetch what is behind it. multiply_block counts on long ones to fetch.
  const Index ahead = k > steps_ahead ? steps_ahead * pb : 0;
#pragma GCC unroll 4
  for (Index p = 0; p < k; ++p, a += pa, b += pb) {
    typename How::Wide wide[C];
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) wide[j] = How::read_register(b + j * width<typename How::Number>);
#pragma GCC unroll 2
    for (int j = 0; j < C; j += 64 / register_bytes)
      __builtin_prefetch(b + ahead + j * width<typename How::Number>);
    // Three rows to an address: a register, twice it, and none.
    const typename How::Element* three = a;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const typename How::Word one = How::read(three + r % 3 * ra);
#pragma GCC unroll 2
      for (int j = 0; j < C; ++j) sum[r][j] = How::step(sum[r][j], one, wide[j]);
      if (r % 3 == 2) three += 3 * ra;
    }
  }
}

// The sums of R rows and C registers of columns. Loops are unrolled, so that no sum has an address
// and all stay in registers.
template <class How, int R, int C>
TETE_INLINE void sum_tile(Index k, const typename How::Element* a, Index ra, Index pa,
                          const typename How::Word* b, Index pb, typename How::Sum (&sum)[R][C]) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) sum[r][j] = typename How::Sum{};
  const Fixed<1> one;
  if (R == tile_rows && pa == 1) add_steps<How>(k, a, ra, one, b, pb, sum);
  else if (R == tile_rows && ra == 1) add_steps<How>(k, a, one, pa, b, pb, sum);
  else add_steps<How>(k, a, ra, pa, b, pb, sum);
}

template <class T, class Sum, int R, int C>
TETE_INLINE void store_tile(const Sum (&sum)[R][C], T* c, Index rc, bool add) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) {
      T* const at = c + r * rc + j * width<T>;
      const auto made = Register<T>(sum[r][j]);
      store<T>(at, add ? load(at) + made : made);
    }
}

// The last n columns, of which a tile of C registers may have more. Not inlined: the loop over
// whole tiles is faster beside less code.
template <class How, int R, int C>
__attribute__((noinline)) void last_tile(Index k, const typename How::Element* a, Index ra,
                                         Index pa, const typename How::Word* b, Index pb,
                                         typename How::Number* c, Index rc, Index n, bool add) {
  using T = typename How::Number;
  constexpr Index columns = C * width<T>;
  typename How::Sum sum[R][C];
  sum_tile<How>(k, a, ra, pa, b, pb, sum);
  if (n == columns) return store_tile(sum, c, rc, add);
  T part[R][columns];
  store_tile(sum, part[0], columns, false);
  for (int r = 0; r < R; ++r, c += rc)
    for (Index j = 0; j < n; ++j) c[j] = add ? c[j] + part[r][j] : part[r][j];
}

template <class How>
using Tiles = void(Index k, const typename How::Element* a, Index ra, Index pa,
                   const typename How::Word* b, Index pb, Index nb, typename How::Number* c,
                   Index rc, Index n, bool add);

// A row of tiles.
template <class How, int R>
void tiles(Index k, const typename How::Element* a, Index ra, Index pa, const typename How::Word* b,
           Index pb, Index nb, typename How::Number* c, Index rc, Index n, bool add) {
  using T = typename How::Number;
  constexpr int lanes = width<T>;
  constexpr Index columns = tile_registers * lanes;
  for (; n >= columns; n -= columns, b += nb, c += columns) {
    // The sum takes so long that its result's lines have come when it is stored.
    if (k >= 64)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int j = 0; j < tile_registers; ++j) __builtin_prefetch(c + r * rc + j * lanes, 1);
    typename How::Sum sum[R][tile_registers];
    sum_tile<How>(k, a, ra, pa, b, pb, sum);
    store_tile(sum, c, rc, add);
  }
  if (n > lanes) last_tile<How, R, tile_registers>(k, a, ra, pa, b, pb, c, rc, n, add);
  else if (n > 0) last_tile<How, R, 1>(k, a, ra, pa, b, pb, c, rc, n, add);
}

template <class How, int R>
struct TilesOf {
  TETE_INLINE Tiles<How>* rows(Index count) {
    return count == R ? tiles<How, R> : TilesOf<How, R - 1>::rows(count);
  }
};
template <class How>
struct TilesOf<How, 0> {
  TETE_INLINE Tiles<How>* rows(Index) { return nullptr; }
};

template <class How>
void product(Index R, Index k, const typename How::Element* a, Index ra, Index pa,
             const typename How::Word* b, Index pb, Index nb, typename How::Number* c, Index rc,
             Index n, bool add) {
  TilesOf<How, tile_rows>::rows(R)(k, a, ra, pa, b, pb, nb, c, rc, n, add);
}

// Adds one line of b at a time. Each product and its sum are one expression of numbers already
// read: what a sanitizer puts between a product and a sum would keep it from being one instruction,
// with other bits.
template <class T>
void one_by_one(Index m, Index n, Index k, const T* a, Index ra, Index pa, const T* b, Index rb,
                T* __restrict c, Index rc) {
  for (Index p = 0; p < k; ++p, a += pa, b += rb)
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        const T sum = c[i * rc + j], factor = a[i * ra], entry = b[j];
        c[i * rc + j] = sum + factor * entry;
      }
}

// Adds several lines of b at a time, each of which is read to its end: memory gives most when it is
// read in its order.
template <class T>
void few_rows(Index m, Index n, Index k, const T* a, Index ra, Index pa, const T* b, Index rb,
              T* __restrict c, Index rc) {
  constexpr int together = 8;
  const Index whole = n / width<T> * width<T>;
  for (; k >= together; k -= together, a += together * pa, b += together * rb) {
    T factor[Rows<T>::most_few_rows][together];
    for (Index i = 0; i < m; ++i)
      for (int q = 0; q < together; ++q) factor[i][q] = a[i * ra + q * pa];
    for (Index j = 0; j < whole; j += width<T>) {
      Register<T> line[together];
#pragma GCC unroll 8
      for (int q = 0; q < together; ++q) line[q] = load(b + q * rb + j);
      for (Index i = 0; i < m; ++i) {
        Register<T> sum = load(c + i * rc + j);
#pragma GCC unroll 8
        for (int q = 0; q < together; ++q) sum += all_lanes(factor[i][q]) * line[q];
        store<T>(c + i * rc + j, sum);
      }
    }
    one_by_one(m, n - whole, together, a, ra, pa, b + whole, rb, c + whole, rc);
  }
  one_by_one(m, n, k, a, ra, pa, b, rb, c, rc);
}

// ---- bfloat16 --------------------------------------------------------------------------------

// The upper half of a float, rounded to nearest, ties to even; a NaN stays one.
TETE_INLINE uint16_t rounded(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t up = bits + 0x7FFFu + (bits >> 16 & 1u);
  return static_cast<uint16_t>(((bits & 0x7FFFFFFFu) > 0x7F800000u ? bits | 0x400000u : up) >> 16);
}

void round_row(const float* x, Bf16* __restrict y, Index n) {
  Index i = 0;
#if defined(__AVX512BF16__)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                        __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(_mm512_loadu_ps(x + i))));
#endif
  for (; i < n; ++i) y[i].bits = rounded(x[i]);
}

void widen_row(const Bf16* x, float* __restrict y, Index n) {
  for (Index i = 0; i < n; ++i)
    y[i] = __builtin_bit_cast(float, static_cast<uint32_t>(x[i].bits) << 16);
}

template <class Count>
TETE_INLINE void zip(const Bf16* x, const Bf16* y, Count n, uint32_t* __restrict pairs) {
  for (Index j = 0; j < n; ++j) pairs[j] = x[j].bits | static_cast<uint32_t>(y[j].bits) << 16;
}

// Lines are read to their end, as far as they go.
void pair_columns(const Bf16* x, Index rx, Index k, Index n, uint32_t* __restrict pairs, Index wide,
                  Index count) {
  constexpr int fast = tile_registers * width<float>;
  for (Index p = 0; p < count; ++p, x += 2 * rx, pairs += wide)
    for (Index j = 0; j < n; j += wide) {
      uint32_t* const to = pairs + j * count;
      const Index some = 2 * p >= k ? 0 : n - j < wide ? n - j : wide;
      const bool is_last = 2 * p + 1 == k;  // paired with 0
      if (is_last)
        for (Index i = 0; i < some; ++i) to[i] = x[j + i].bits;
      else if (some == fast) zip(x + j, x + rx + j, Fixed<fast>(), to);
      else zip(x + j, x + rx + j, some, to);
      for (Index i = some; i < wide; ++i) to[i] = 0;
    }
}

void pair_lines(const Bf16* x, Index rx, Index k, Index n, uint32_t* __restrict pairs,
                Index count) {
  constexpr Index step = 2 * width<float>;
  for (Index j = 0; j < n; ++j, x += rx, pairs += count) {
    Index i = 0;
    for (; i + step <= k; i += step) __builtin_memcpy(pairs + i / 2, x + i, register_bytes);
    for (; i < 2 * count; i += 2)
      pairs[i / 2] = (i < k ? x[i].bits : 0) | (i + 1 < k ? uint32_t{x[i + 1].bits} << 16 : 0);
  }
}

template <class T>
void panel(const T* x, Index rx, Index k, T* y) {
  for (Index p = 0; p < k; ++p, x += rx)
    for (int j = 0; j < tile_registers; ++j, y += width<T>) store<T>(y, load(x + j * width<T>));
}

template <class T>
void strip(const T* x, Index px, Index k, T* y) {
  for (Index p = 0; p < k; ++p, x += px, y += tile_rows)
    __builtin_memcpy(y, x, tile_rows * sizeof(T));  // in vectors, as a loop of 12 is not
}

template <class T>
void fill(Rows<T>& rows) {
  rows.product = product<Single<T>>;
  rows.product_is_fast = register_bytes >= 32;
  rows.panel = panel<T>, rows.strip = strip<T>, rows.few_rows = few_rows<T>;
  rows.product_rows = tile_rows;
  rows.product_columns = tile_registers * width<T>;
}

}  // namespace

void fill_product(Table& table) {
  fill(table.floats), fill(table.doubles);
  table.pairs = {.product_rows = tile_rows,
                 .product_columns = tile_registers * width<float>,
                 .pair_columns = pair_columns,
                 .pair_lines = pair_lines,
                 .round = round_row,
                 .widen = widen_row};
#if defined(__AVX512BF16__)
  table.pairs.product = product<Pairs>;
#endif
}

}  // namespace tete::cpu_kernels::TETE_ISA
