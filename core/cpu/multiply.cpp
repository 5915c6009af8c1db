// Products of matrices in blocks that fit the caches. A block of B is copied to the order in which
// the tiles of rows_product.cpp read it, unless A has so few rows that they read it where it lies,
// and stays in the second- or third-level cache for all of A; some rows of A stay in the
// first-level one for all of the block. Without such tiles BLAS multiplies.
#include "core/cpu/multiply.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/cpu/blas.hpp"
#include "core/cpu/lines.hpp"
#include "core/cpu/rows.hpp"
#include "core/unchanged.hpp"

namespace tete::cpu_kernels {

template <class T>
void lay_out(Index k, Index n, const Matrix<const T>& b, T* to) {
  const Index wide = rows<T>().product_columns;
  for (Index j = 0; j < n; j += wide, to += k * wide) {
    const Index some = std::min(wide, n - j);
    const T* from = b.data + j * b.column;
    if (some < wide) std::fill_n(to, k * wide, T(0));
    if (b.column != 1) {
      rows<T>().transpose(from, b.column, to, wide, some, k);
      continue;
    }
    if (some == wide) rows<T>().panel(from, b.row, k, to);
    else
      for (Index p = 0; p < k; ++p) std::copy_n(from + p * b.row, some, to + p * wide);
  }
}
template void lay_out(Index, Index, const Matrix<const float>&, float*);
template void lay_out(Index, Index, const Matrix<const double>&, double*);

namespace {

// Columns of C in a block. Each block reads all of A again, which costs more than a block of B that
// comes from the third-level cache.
constexpr Index block_columns = 768;
// If A has at most so many tiles of rows, B is read in place, where kernels fetch its lines ahead:
// copying it would take longer than it saves. In short sums (k <= small_side), which end before
// that helps, it holds for one tile only: a second one would find B evicted, as its lines are far
// apart. Lines of at most so many panels are not.
constexpr Index few_tiles = 32, short_line = 2;
// Lines a multiple of this apart, in bytes, fall into the same few places of a cache and evict each
// other, so that such a B is copied.
constexpr Index same_place = 4096;
// A transposed A is copied if more panels of B than these read it.
constexpr Index few_panels = 4;
constexpr Index cached = 65536;        // elements of A that a cache is likely to have
constexpr Index columns_at_once = 64;  // columns of C between which some rows of A are fetched

// The calling thread's own memory, for the most elements asked for so far. It is kept from product
// to product.
template <class T>
class Space {
 public:
  T* of(Index count) {
    if (count > count_) elements_.reset(new (std::align_val_t(64)) T[static_cast<size_t>(count)]);
    count_ = std::max(count, count_);
    return elements_.get();
  }

 private:
  struct Free {
    void operator()(T* elements) const { operator delete[](elements, std::align_val_t(64)); }
  };
  std::unique_ptr<T[], Free> elements_;
  Index count_ = 0;
};

// The same of a B that may be unchanged from call to call: then its panels are kept. Otherwise they
// are laid out in `space`, which has room for so many.
template <class T>
const T* panels_of(const Matrix<const T>& b, Index k, Index n, Index wide, T* space) {
  if (const Unchanged* const known = Unchanged::at(b.data)) {
    const Index key[] = {reinterpret_cast<Index>(b.data), b.row, b.column, k, n};
    const void* const made =
        known->made_of({reinterpret_cast<const char*>(key), sizeof key},
                       static_cast<size_t>(k * rounded_up(n, wide)) * sizeof(T),
                       [&](void* to) { lay_out(k, n, b, static_cast<T*>(to)); });
    if (made) return static_cast<const T*>(made);
  }
  lay_out(k, n, b, space);
  return space;
}

// ---- Few rows of A -----------------------------------------------------------------------------

// True if B comes from memory, and is read but once, in its order, for so few rows of A.
template <class T>
bool is_read_once(Index m, Index n, Index k, const Matrix<const T>& B) {
  constexpr Index large = 131072;  // elements
  return m <= Rows<T>::most_few_rows && n * k >= large && n >= 64 && B.column == 1;
}

template <class T>
void multiply_few_rows(Index m, Index n, Index k, const Matrix<const T>& A,
                       const Matrix<const T>& B, const Matrix<T>& C, bool add) {
  constexpr Index columns = 512;  // of C in the first-level cache
  thread_local Space<T> space;
  T* const sums = space.of(m * columns);
  for (Index j = 0; j < n; j += columns) {
    const Index some = std::min(columns, n - j);
    // A long sum is one of blocks, whose errors are those of short ones.
    for (Index p = 0; p < k; p += block_steps) {
      std::fill_n(sums, m * some, T(0));
      rows<T>().few_rows(m, some, std::min(block_steps, k - p), A.data + p * A.column, A.row,
                         A.column, B.data + p * B.row + j, B.row, sums, some);
      for (Index i = 0; i < m; ++i) {
        T* const to = C.data + i * C.row + j;
        if (add || p > 0)
          for (Index c = 0; c < some; ++c) to[c] += sums[i * some + c];
        else std::copy_n(sums + i * some, some, to);
      }
    }
  }
}

template <class T>
struct BlockSpace {
  T *a, *b;
};

// The strip of A's next `some` rows. A transposed A is copied: its lines are far apart, and each
// panel of B would read them again.
template <class T>
Matrix<const T> strip_of(const Matrix<const T>& A, Index some, Index k, bool is_read_again,
                         T* space) {
  if (A.column == 1 || !is_read_again || some < rows<T>().product_rows) return A;
  rows<T>().strip(A.data, A.column, k, space);
  return {space, 1, some};
}

// C (+)= A B for k <= block_steps, n <= block_columns.
template <class T>
void multiply_block(Index m, Index n, Index k, const Matrix<const T>& A, const Matrix<const T>& B,
                    const Matrix<T>& C, bool add, const BlockSpace<T>& space) {
  const Rows<T>& kernels = rows<T>();
  const Index wide = kernels.product_columns, whole = n / wide * wide;
  const bool collides = B.row * Index{sizeof(T)} % same_place == 0;
  // Beyond the last whole panel there may be no memory to read. Panels of an unchanged B are kept.
  const bool in_place =
      B.column == 1 && !Unchanged::at(B.data) &&
      (m <= (k > small_side && !collides ? few_tiles : 1) * kernels.product_rows ||
       B.row <= short_line * wide);
  const Index as_it_lies = in_place ? whole : 0, others = n - as_it_lies;
  const T* const panels = others == 0
                              ? nullptr
                              : panels_of<T>({B.data + as_it_lies * B.column, B.row, B.column}, k,
                                             others, wide, space.b);
  const bool fetches = m * k >= cached, is_turned = A.column != 1;
  const Index columns = fetches ? columns_at_once : n, pieces = pieces_of(n, columns),
              step = is_turned ? A.column : A.row, lines = is_turned ? k : kernels.product_rows,
              at_once = pieces_of(lines, pieces);
  for (Index i = 0; i < m; i += kernels.product_rows) {
    const Index some = std::min(kernels.product_rows, m - i);
    const Matrix<const T> a =
        strip_of<T>({A.data + i * A.row, A.row, A.column}, some, k, n > few_panels * wide, space.a);
    const Index next = i + kernels.product_rows, left = std::min(kernels.product_rows, m - next);
    const auto make = [&](Index from, Index to, const T* b, Index pb, Index nb) {
      kernels.product(some, k, a.data, a.row, a.column, b, pb, nb, C.data + i * C.row + from, C.row,
                      to - from, add);
    };
    for (Index piece = 0; piece < pieces; ++piece) {
      // A's next rows, or columns of a transposed A: products with them need not wait for memory.
      const Index asked = piece * at_once;
      if (fetches && left > 0)
        fetch<2>(Lines<const T>{A.data + next * A.row, step}.from_row(asked),
                 std::min(at_once, (is_turned ? k : left) - asked), 0, is_turned ? left : k);
      const Index from = piece * columns, to = std::min(n, from + columns),
                  lying = std::clamp(as_it_lies, from, to);
      if (from < lying) make(from, lying, B.data + from, B.row, wide);
      if (lying < to) make(lying, to, panels + (lying - as_it_lies) * k, wide, k * wide);
    }
  }
}

// ---- bfloat16 --------------------------------------------------------------------------------

constexpr Index paired_rows = 192, paired_columns = 384;  // of C in a block
constexpr Index paired_steps = 16 * block_steps;  // terms of a sum for which B is laid out at once

// The number of words for k numbers of a sum, two to a word: as many as a product takes. Behind the
// last number there are zeros.
Index pairs_of(Index k) { return rounded_up((k + 1) / 2, pair_rows().together); }

// y[j·ry + i] = x[i·rx + j] for i < lines, j < n.
void transpose(const uint32_t* x, Index rx, uint32_t* y, Index ry, Index lines, Index n) {
  rows<float>().transpose(reinterpret_cast<const float*>(x), rx, reinterpret_cast<float*>(y), ry,
                          lines, n);
}

// The same as lay_out, but in pairs.
void lay_out(const Matrix<const Bf16>& b, Index k, Index n, Index wide, uint32_t* to) {
  const Index pairs = pairs_of(k);
  if (b.column == 1) return pair_rows().pair_columns(b.data, b.row, k, n, to, wide, pairs);
  thread_local Space<uint32_t> space;
  uint32_t* const lines = space.of(pairs * wide);
  for (Index j = 0; j < n; j += wide, to += pairs * wide) {
    const Index some = std::min(wide, n - j);
    if (some < wide) std::fill_n(to, pairs * wide, 0u);
    pair_rows().pair_lines(b.data + j * b.column, b.column, k, some, lines, pairs);
    transpose(lines, pairs, to, wide, some, pairs);
  }
}

// True if products may read A's next `rows` rows where they are. Tiles read whole lines of a cache;
// lines that are 2 KiB apart share a part of the first-level cache that does not hold them.
bool may_lie(const Matrix<const Bf16>& A, Index rows, Index k) {
  const Index together = pair_rows().together, line = 2 * together;
  if (A.column != 1 || k % line != 0 || rows % together != 0) return false;
  return together == 1 ||
         (reinterpret_cast<uintptr_t>(A.data) % 64 == 0 && A.row % line == 0 && A.row % 1024 != 0);
}

// Some rows of A as a product reads them: where they are, or laid out in `space`. Those of a
// transposed A are paired already, in lines of so many columns.
Matrix<const Bf16> in_pairs(const Matrix<const Bf16>& A, Index rows, Index k,
                            const uint32_t* paired, Index columns, uint32_t* space) {
  const auto numbers = [](const uint32_t* pairs) { return reinterpret_cast<const Bf16*>(pairs); };
  const Index pairs = pairs_of(k);
  if (may_lie(A, rows, k)) return {A.data, A.row, 2};
  if (A.column != 1 && pair_rows().together == 1) return {numbers(paired), 2, 2 * columns};
  if (A.column != 1) transpose(paired, columns, space, pairs, pairs, rows);
  else pair_rows().pair_lines(A.data, A.row, k, rows, space, pairs);
  return {numbers(space), 2 * pairs, 2};
}

// While it lives, the calling thread may multiply pairs.
class PairsInUse {
 public:
  PairsInUse() {
    if (pair_rows().begin) pair_rows().begin();
  }
  ~PairsInUse() {
    if (pair_rows().end) pair_rows().end();
  }
  PairsInUse(const PairsInUse&) = delete;
};

// C (+)= A B for m <= paired_rows, n <= paired_columns, k <= block_steps, and B in panels.
void multiply_panels(Index m, Index n, Index k, const Matrix<const Bf16>& A, const uint32_t* panels,
                     const Matrix<float>& C, bool add) {
  const PairRows& kernels = pair_rows();
  const Index wide = kernels.product_columns, high = kernels.product_rows, pairs = pairs_of(k);
  thread_local Space<uint32_t> of_a, of_strip;
  uint32_t* const paired = of_a.of(rounded_up(m, high) * pairs);
  uint32_t* const strip = of_strip.of(high * pairs);
  const Index together = kernels.together > 1 ? high : m;  // columns of a transposed A
  if (A.column != 1) kernels.pair_columns(A.data, A.column, k, m, paired, together, pairs);
  for (Index i = 0; i < m; i += high) {
    const Index some = std::min(high, m - i);
    const auto a =
        in_pairs({A.data + i * A.row, A.row, A.column}, some, k,
                 paired + i / together * together * pairs + i % together, together, strip);
    kernels.product(some, pairs, a.data, a.row, a.column, panels, wide, pairs * wide,
                    C.data + i * C.row, C.row, n, add);
  }
}

// Some rows of C stay in the second-level cache for all of a sum of at most paired_steps terms, as
// do a block of B and the rows of A that meet it.
void multiply_pairs(Index m, Index n, Index k, const Matrix<const Bf16>& A,
                    const Matrix<const Bf16>& B, const Matrix<float>& C, bool add) {
  const PairsInUse pairs_in_use;
  thread_local Space<uint32_t> space;
  const Index wide = pair_rows().product_columns;
  for (Index j = 0; j < n; j += paired_columns) {
    const Index columns = std::min(paired_columns, n - j), line = rounded_up(columns, wide);
    uint32_t* const panels = space.of(pairs_of(k) * line);
    for (Index p = 0; p < k; p += block_steps)
      lay_out({B.data + p * B.row + j * B.column, B.row, B.column}, std::min(block_steps, k - p),
              columns, wide, panels + p / 2 * line);
    for (Index i = 0; i < m; i += paired_rows)
      for (Index p = 0; p < k; p += block_steps)
        multiply_panels(std::min(paired_rows, m - i), columns, std::min(block_steps, k - p),
                        {A.data + i * A.row + p * A.column, A.row, A.column}, panels + p / 2 * line,
                        {C.data + i * C.row + j, C.row, C.column}, add || p > 0);
  }
}

// ---- Blocks ----------------------------------------------------------------------------------

template <class X, class Y, class Space>
void multiply_in_blocks(Index m, Index n, Index k, const Matrix<const X>& A,
                        const Matrix<const X>& B, const Matrix<Y>& C, bool add, Space space) {
  for (Index p = 0; p < k; p += block_steps)
    for (Index j = 0; j < n; j += block_columns)
      multiply_block(m, std::min(block_columns, n - j), std::min(block_steps, k - p),
                     Matrix<const X>{A.data + p * A.column, A.row, A.column},
                     Matrix<const X>{B.data + p * B.row + j * B.column, B.row, B.column},
                     Matrix<Y>{C.data + j, C.row, C.column}, add || p > 0, space);
}

// For C with columns of stride 1.
template <class T>
void multiply_rows(Index m, Index n, Index k, const Matrix<const T>& A, const Matrix<const T>& B,
                   const Matrix<T>& C, bool add) {
  // BLAS is slower than tiles of any registers if a small A mixes long rows of B.
  const bool mixes = std::max(m, k) <= small_side && n >= long_row;
  if (!mixes && !rows<T>().product_is_fast) return blas_multiply(m, n, k, A, B, C, add);
  if (is_read_once(m, n, k, B)) return multiply_few_rows(m, n, k, A, B, C, add);
  const Index wide = rows<T>().product_columns, steps = std::min(k, block_steps);
  thread_local Space<T> of_a, of_b;
  const BlockSpace<T> space{of_a.of(steps * rows<T>().product_rows),
                            of_b.of(steps * rounded_up(std::min(n, block_columns), wide))};
  multiply_in_blocks(m, n, k, A, B, C, add, space);
}

// The matrix in f32, one line after the other; one row is a line whatever its stride.
Matrix<const float> widened(const Matrix<const Bf16>& x, Index rows, Index columns, float* space) {
  const bool lies = x.column == 1;
  const Index lines = lies ? rows : columns, length = lies ? columns : rows;
  for (Index i = 0; i < lines; ++i)
    pair_rows().widen(x.data + i * (lies ? x.row : x.column), space + i * length, length);
  return lies || rows == 1 ? Matrix<const float>{space, columns, 1}
                           : Matrix<const float>{space, 1, rows};
}

constexpr Index widened_rows = 384;  // of A at a time

// The same where the processor multiplies f32 faster.
void multiply_block(Index m, Index n, Index k, const Matrix<const Bf16>& A,
                    const Matrix<const Bf16>& B, const Matrix<float>& C, bool add,
                    const BlockSpace<float>& space) {
  const Matrix<const float> b = widened(B, k, n, space.b);
  for (Index i = 0; i < m; i += widened_rows) {
    const Index some = std::min(widened_rows, m - i);
    const auto a = widened({A.data + i * A.row, A.row, A.column}, some, k, space.a);
    multiply_rows(some, n, k, a, b, Matrix<float>{C.data + i * C.row, C.row, C.column}, add);
  }
}

void multiply_rows(Index m, Index n, Index k, const Matrix<const Bf16>& A,
                   const Matrix<const Bf16>& B, const Matrix<float>& C, bool add) {
  if (pair_rows().product) {
    for (Index p = 0; p < k; p += paired_steps)
      multiply_pairs(m, n, std::min(paired_steps, k - p), {A.data + p * A.column, A.row, A.column},
                     {B.data + p * B.row, B.row, B.column}, C, add || p > 0);
    return;
  }
  const Index steps = std::min(k, block_steps), columns = std::min(n, block_columns);
  thread_local Space<float> of_a, of_b;
  const BlockSpace<float> space{of_a.of(std::min(m, widened_rows) * steps),
                                of_b.of(steps * columns)};
  multiply_in_blocks(m, n, k, A, B, C, add, space);
}

}  // namespace

template <class X, class Y>
void multiply(Index m, Index n, Index k, const Matrix<const X>& A, const Matrix<const X>& B,
              const Matrix<Y>& C, bool add) {
  if (C.column == 1) return multiply_rows(m, n, k, A, B, C, add);
  // Transposed, so that C's columns have stride 1: Cᵀ = Bᵀ Aᵀ.
  const auto turned = [](const auto& M) {
    return std::decay_t<decltype(M)>{M.data, M.column, M.row};
  };
  multiply_rows(n, m, k, turned(B), turned(A), turned(C), add);
}

template <class T>
Matrix<const T> in_lines(Index k, Index n, const Matrix<const T>& B) {
  constexpr Index large = 1 << 18, at_once = 64, line = 64 / Index{sizeof(T)};
  if (B.column == 1 || k * n > large) return B;
  Index row = rounded_up(n, line);
  if (row * Index{sizeof(T)} % same_place == 0) row += line;
  thread_local Space<T> space;
  T* const to = space.of(k * row);
  parallel_for(pieces_of(n, at_once), static_cast<double>(k * n), [&](Index piece) {
    const Index j = piece * at_once;
    rows<T>().transpose(B.data + j * B.column, B.column, to + j, row, std::min(at_once, n - j), k);
  });
  return {to, row, 1};
}

template <class X>
bool cuts_keep_bits() {
  return rows<X>().product_is_fast;
}
template <>
bool cuts_keep_bits<Bf16>() {
  return pair_rows().product || cuts_keep_bits<float>();
}

template Matrix<const float> in_lines(Index, Index, const Matrix<const float>&);
template Matrix<const double> in_lines(Index, Index, const Matrix<const double>&);
template bool cuts_keep_bits<float>();
template bool cuts_keep_bits<double>();
template void multiply(Index, Index, Index, const Matrix<const float>&, const Matrix<const float>&,
                       const Matrix<float>&, bool);
template void multiply(Index, Index, Index, const Matrix<const double>&,
                       const Matrix<const double>&, const Matrix<double>&, bool);
template void multiply(Index, Index, Index, const Matrix<const Bf16>&, const Matrix<const Bf16>&,
                       const Matrix<float>&, bool);

}  // namespace tete::cpu_kernels
