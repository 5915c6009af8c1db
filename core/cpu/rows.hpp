// The row kernels: plain loops over pointers, compiled once for each instruction set and chosen
// when the program runs. The speed of a row is decided here and in rows_*.cpp; other files cut
// tensors into rows.
//
// This file and rows_*.cpp include nothing of the standard library: an inline function compiled
// for AVX-512 must not be the one that the linker keeps for a machine without it.
//
// Strides are in elements. Stride 0 repeats one element. n may be 0.
#pragma once
#include <cstdint>

#include "core/bf16.hpp"

namespace tete {

using Index = int64_t;

namespace cpu_kernels {

inline constexpr int unary_count = 0
#define UNARY(...) +1
#define BINARY(...)
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
    ;
inline constexpr int binary_count = 0
#define UNARY(...)
#define BINARY(...) +1
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
    ;

// y[i·ym + j·yn + x] = Σ_k a[i·am + k·ak + x] b[k·bk + j·bn + x] for i < M, j < N, k < K, x <
// places: a matrix product at each place of a row.
template <class T>
struct LaneProduct {
  const T* a;
  Index am, ak;
  const T* b;
  Index bk, bn;
  T* y;
  Index ym, yn, M, N, K, places;
};

// The numbers of a step of Adam (core/update.hpp); other: 1 - β.
template <class T>
struct AdamNumbers {
  T beta1, other1, beta2, other2, keep, rate, unit, epsilon;
};
// The products g[r·rg + i·sg] a[r·ra + i·sa] b[r·rb + i·sb], r < rows, i < n.
template <class T>
struct ProductRows {
  const T *g, *a, *b;
  Index rg, ra, rb, sg, sa, sb, rows, n;
};

// Parts of at most `most` rows, `step` apart: the first shown[r] of n numbers in row r. The others
// count for nothing and become 0.
template <class T>
struct PartRows {
  static constexpr Index most = 64;
  T* x;
  Index step;
  const Index* shown;
  Index rows, n;
};

template <class T>
struct Rows {
  static constexpr Index most_few_rows = 16;
  using UnaryRow = void(const T* x, Index sx, T* y, Index sy, Index n);
  using GradientRow = void(const T* x, Index sx, const T* y, Index sy, const T* g, Index sg, T* dx,
                           Index sdx, Index n);
  using BinaryRow = void(const T* a, Index sa, const T* b, Index sb, T* y, Index sy, Index n);
  using OfSumGradientRow = void(const T* a, Index sa, const T* b, Index sb, const T* y, Index sy,
                                const T* g, Index sg, T* dsum, Index sd, Index n);

  // rows_elementwise.cpp
  UnaryRow* unary[unary_count];
  GradientRow* unary_gradient[unary_count];
  BinaryRow* binary[binary_count];
  // y = op(a + b); dsum = g · op'(a + b), where y = op(a + b).
  BinaryRow* unary_of_sum[unary_count];
  OfSumGradientRow* unary_of_sum_gradient[unary_count];
  void (*select)(const T* c, Index sc, const T* a, Index sa, const T* b, Index sb, T* y, Index sy,
                 Index n);
  // ya = a c - b s, yb = a s + b c. ya is last, as the view in whose order rows are walked.
  void (*turn)(const T* a, Index sa, const T* b, Index sb, const T* c, Index sc, const T* s,
               Index ss, T* yb, Index syb, T* ya, Index sya, Index n);

  // rows_random.cpp
  // The uniform numbers of counters first … first + n-1.
  void (*uniform)(uint64_t key, uint64_t first, T* y, Index n);
  // y = x·scale where the uniform number is at least rate, else 0.
  void (*dropout)(const T* x, Index sx, T rate, T scale, uint64_t key, uint64_t first, T* y,
                  Index sy, Index n);

  // rows_sums.cpp. Sums run over fixed lanes, so their order does not depend on the machine.
  T (*sum)(const T* x, Index sx, Index n);
  T (*max)(const T* x, Index sx, Index n);
  T (*dot)(const T* a, Index sa, const T* b, Index sb, Index n);
  // y[r·ry] = Σ_j a[r·ra + j] b[r·rb + j], r < rows, j < n: what `dot` gives for each row.
  void (*dots)(const T* a, Index ra, const T* b, Index rb, Index rows, Index n, T* y, Index ry);
  // total_j += Σ_r x[r·rx + j·sx], r < rows; max likewise; dot Σ_r a[r·ra + j·sa] b[r·rb + j·sb].
  void (*sum_across)(const T* x, Index rx, Index sx, Index rows, Index n, T* total);
  void (*max_across)(const T* x, Index rx, Index sx, Index rows, Index n, T* total);
  void (*dot_across)(const T* a, Index ra, Index sa, const T* b, Index rb, Index sb, Index rows,
                     Index n, T* total);
  // y[j·ry + i] = x[i·rx + j] for i < rows, j < columns.
  void (*transpose)(const T* x, Index rx, T* y, Index ry, Index rows, Index columns);

  // rows_small.cpp. lanes[(r·C + c)·outer_lanes + l] += Σ_j x[r·rx + j] g[c·rg + j] for r < R,
  // c < C and j < n with j % outer_lanes = l.
  void (*outer)(const T* x, Index rx, Index R, const T* g, Index rg, Index C, Index n, T* lanes);
  Index outer_lanes;
  // total[i] += the sum of lanes[i·outer_lanes …], i < count.
  void (*add_lanes)(const T* lanes, Index count, double* total);
  void (*lane_product)(const LaneProduct<T>& product);

  // rows_softmax.cpp. Every row has stride 1; mask may be null. y may be x.
  void (*softmax)(const T* x, const T* mask, T* y, Index n);
  // The same in place for a part of each row, as if there were no others but earlier parts: their
  // weights are then to be multiplied by factors[r], which it writes. stats[r·rs] and the number
  // behind it, -inf and 0 before the first part: the largest number so far and Σ exp(x - largest).
  void (*softmax_of_part)(const PartRows<T>& part, T* stats, Index rs, T* factors);
  // The weights once more, to the bit where there is one part, from the largest number of all parts
  // and 1/Σ.
  void (*softmax_of_part_again)(const PartRows<T>& part, const T* stats, Index rs);
  void (*softmax_gradient)(const T* y, const T* g, T* dx, Index n);
  // Puts the gradient in the place of g, which `part` has; rows of the weights y, 0 where numbers
  // are not shown, are as far apart. inner: Σ y g of each row over all its parts; null if this is
  // the only one.
  void (*softmax_gradient_of_part)(const PartRows<T>& part, const T* y, const T* inner);
  // Returns log Σ exp x.
  T (*logsumexp)(const T* x, Index n);
  // y = g (exp(x - lse) - [j = target]).
  void (*cross_entropy_gradient)(const T* x, T lse, T g, Index target, T* y, Index n);

  // rows_product.cpp. c[i·rc + j] = Σ_p a[i·ra + p·pa] b[p·pb + j] for i < R <= product_rows,
  // j < n, p < k; if `add`, it is added to c. Columns of b lie in tiles of product_columns, nb from
  // one to the next. All columns of a tile are read, or half of them if no more are left.
  void (*product)(Index R, Index k, const T* a, Index ra, Index pa, const T* b, Index pb, Index nb,
                  T* c, Index rc, Index n, bool add);
  Index product_rows, product_columns;
  bool product_is_fast;  // faster than BLAS, for large matrices
  // c[i·rc + j] += Σ_p a[i·ra + p·pa] b[p·rb + j] for i < m <= most_few_rows, j < n, p < k.
  void (*few_rows)(Index m, Index n, Index k, const T* a, Index ra, Index pa, const T* b, Index rb,
                   T* c, Index rc);
  // y[p·product_columns + j] = x[p·rx + j] for p < k and all columns.
  void (*panel)(const T* x, Index rx, Index k, T* y);
  // y[p·product_rows + i] = x[p·px + i] for p < k and all rows.
  void (*strip)(const T* x, Index px, Index k, T* y);

  // rows_update.cpp. p, m and v are written over, and have stride 1.
  void (*adam)(const AdamNumbers<T>& numbers, T* p, const T* g, Index sg, T* m, T* v, Index n);
  double (*product_squares)(const ProductRows<T>& product);  // the sum of its squares
  // y = p - rate · the product; p and y have g's strides, and sg = 1. Returns Σ y², with the bits
  // that product_squares gives for y, 1 and 1.
  double (*minus_product)(const ProductRows<T>& product, const T* p, T rate, T* y);
  // Σ x[r·rx + i·sx]², r < rows, i < n.
  double (*squares)(const T* x, Index rx, Index sx, Index rows, Index n);
  // along[r·sa] = Σ_j g[r·rg + j]² and across[j] += Σ_r g[r·rg + j]², r < rows, j < n.
  void (*squares_both_ways)(const T* g, Index rg, Index rows, Index n, T* along, Index sa,
                            T* across);

  // rows_norm.cpp. stats: μ and 1/√(σ² + ε); bias is null for RMS norm.
  void (*norm)(const T* x, const T* scale, const T* bias, bool center, T epsilon, T* y, T* stats,
               Index n);
  // dscale += g·(x - μ)/σ and, where not null, dbias += g.
  void (*norm_gradient)(const T* x, const T* scale, const T* g, const T* stats, bool center, T* dx,
                        T* dscale, T* dbias, Index n);
};

// Row kernels of bfloat16 numbers, whose products are summed in f32. A word has two numbers that
// follow each other in the sum, the first one in its lower half.
struct PairRows {
  // The same as Rows::product, but p counts pairs; a, ra and pa count numbers. Null where products
  // of f32 are faster.
  void (*product)(Index R, Index k, const Bf16* a, Index ra, Index pa, const uint32_t* b, Index pb,
                  Index nb, float* c, Index rc, Index n, bool add) = nullptr;
  Index product_rows = 0, product_columns = 0;
  // A product takes so many pairs at a time, of so many rows of a: k is a multiple of it, and rows
  // of a are read up to the next one. If it is not 1, the pairs of a row are adjacent (pa = 2).
  Index together = 1;
  // A thread calls them before its first product and after its last one; null if there is no need.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
  // Columns in panels of `wide`, each with `count` lines, of which the first ones have pairs:
  // pairs[p·wide + j] = x[2p·rx + j], x[(2p + 1)·rx + j] for j < wide, and for the next columns
  // from pairs + wide·count on. There are zeros for lines of x from k on and columns from n on.
  void (*pair_columns)(const Bf16* x, Index rx, Index k, Index n, uint32_t* pairs, Index wide,
                       Index count);
  // pairs[j·count + p] = x[j·rx + 2p], x[j·rx + 2p + 1] for j < n, with zeros for numbers from k
  // on.
  void (*pair_lines)(const Bf16* x, Index rx, Index k, Index n, uint32_t* pairs, Index count);
  // y[i] = x[i], to the nearest, ties to even; and the way back. Numbers below the smallest normal
  // one may become 0, as on processors that multiply bfloat16.
  void (*round)(const float* x, Bf16* y, Index n);
  void (*widen)(const Bf16* x, float* y, Index n);
};

// All rows of one instruction set.
struct Table {
  Rows<float> floats;
  Rows<double> doubles;
  PairRows pairs;
};

// The rows for this machine; chosen at first use, which fails (resource) if none are for it.
template <class T>
const Rows<T>& rows();
template <>
const Rows<float>& rows<float>();
template <>
const Rows<double>& rows<double>();
const PairRows& pair_rows();
// True if the processor multiplies bfloat16 faster than f32. If not, f32 products are used.
bool bf16_is_faster();

// Chooses another instruction set than the machine's best: "v2", "v3", "v4", "v4_bf16",
// "v4_amx" or "generic". False if the machine or the program lacks it. For tests, before other
// threads use rows.
bool use_instruction_set(const char* name);
const char* instruction_set();

// Each instruction set's own copies: every rows_*.cpp fills its part of the table. v4_bf16 has
// products only, v4_amx those of bfloat16.
#define TETE_ROWS_OF(set)        \
  namespace set {                \
  void fill_elementwise(Table&); \
  void fill_sums(Table&);        \
  void fill_small(Table&);       \
  void fill_softmax(Table&);     \
  void fill_norm(Table&);        \
  void fill_update(Table&);      \
  void fill_product(Table&);     \
  void fill_random(Table&);      \
  }
#if defined(__x86_64__)
TETE_ROWS_OF(v2)
TETE_ROWS_OF(v3)
TETE_ROWS_OF(v4)
TETE_ROWS_OF(v4_bf16)
TETE_ROWS_OF(v4_amx)
#else
TETE_ROWS_OF(generic)
#endif
#undef TETE_ROWS_OF

}  // namespace cpu_kernels
}  // namespace tete
