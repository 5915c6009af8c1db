// Rows of small products: of all pairs of rows, and a matrix product at each place of a row.
#include "core/cpu/lanes.hpp"

namespace tete::cpu_kernels::TETE_ISA {
namespace {

// lanes[r][c] for RT·CT pairs of rows at once, in registers over j.
template <class T, int RT, int CT>
TETE_INLINE void outer_tile(const T* x, Index rx, const T* g, Index rg, Index n, T* lanes,
                            Index C) {
  Register<T> sum[RT][CT];
#pragma GCC unroll 8
  for (int r = 0; r < RT; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < CT; ++c) sum[r][c] = load(lanes + (r * C + c) * width<T>);
  Index j = 0;
  for (; j + width<T> <= n; j += width<T>) {
    Register<T> v[CT];
#pragma GCC unroll 8
    for (int c = 0; c < CT; ++c) v[c] = load(g + c * rg + j);
#pragma GCC unroll 8
    for (int r = 0; r < RT; ++r) {
      const Register<T> w = load(x + r * rx + j);
#pragma GCC unroll 8
      for (int c = 0; c < CT; ++c) sum[r][c] += w * v[c];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < RT; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < CT; ++c) store<T>(lanes + (r * C + c) * width<T>, sum[r][c]);
  for (int r = 0; r < RT; ++r)
    for (int c = 0; c < CT; ++c)
      for (Index i = j; i < n; ++i)
        lanes[(r * C + c) * width<T> + i - j] += x[r * rx + i] * g[c * rg + i];
}

// Takes columns from c on; fewer than CT that are left share a smaller tile.
template <class T, int RT, int CT>
void outer_rows(const T* x, Index rx, const T* g, Index rg, Index c, Index C, Index n, T* lanes) {
  for (; c + CT <= C; c += CT)
    outer_tile<T, RT, CT>(x, rx, g + c * rg, rg, n, lanes + c * width<T>, C);
  if constexpr (CT > 1)
    if (c < C) outer_rows<T, RT, CT - 1>(x, rx, g, rg, c, C, n, lanes);
}

template <class T>
void outer(const T* x, Index rx, Index R, const T* g, Index rg, Index C, Index n, T* lanes) {
  constexpr int RT = 4, CT = register_count == 32 ? 6 : 3;
  Index r = 0;
  for (; r + RT <= R; r += RT)
    outer_rows<T, RT, CT>(x + r * rx, rx, g, rg, 0, C, n, lanes + r * C * width<T>);
  for (; r < R; ++r) outer_rows<T, 1, CT>(x + r * rx, rx, g, rg, 0, C, n, lanes + r * C * width<T>);
}

template <class T>
void add_lanes(const T* lanes, Index count, double* total) {
  for (Index i = 0; i < count; ++i, lanes += width<T>)
    total[i] +=
        static_cast<double>(joined_lanes<T>(load(lanes), [](auto a, auto b) { return a + b; }));
}

// ---- A matrix product at each place of a row -------------------------------------------------

// The result is cut into tiles: lane_rows × lane_columns sums, each a register of places. The
// numbers that a tile reads are copied before into the order of the sum, for a strip of a few
// registers of places, a part of the sum and of the columns.
inline constexpr int lane_rows = 4;
inline constexpr int lane_columns = register_count == 32 ? 6 : 3;
inline constexpr int strip_registers = 4;
inline constexpr Index part_sums = 32, part_columns = 24;

template <class T>
using LaneSums = Register<T>[lane_rows][lane_columns];

// At register s of the strip, a[s][k][i] and b[s][k][j].
template <class T>
TETE_INLINE void lane_tile(const T* a, const T* b, Index K, LaneSums<T>& sum) {
  for (Index k = 0; k < K; ++k, a += lane_rows * width<T>, b += lane_columns * width<T>) {
    Register<T> column[lane_columns];
#pragma GCC unroll 8
    for (int j = 0; j < lane_columns; ++j) column[j] = load(b + j * width<T>);
#pragma GCC unroll 4
    for (int i = 0; i < lane_rows; ++i) {
      const Register<T> row = load(a + i * width<T>);
#pragma GCC unroll 8
      for (int j = 0; j < lane_columns; ++j) sum[i][j] += row * column[j];
    }
  }
}

// to[s][k][line]: register s of line `line` at step k of the sum, for lines < `lines` of which
// there are `count`; others and places from n on are 0.
template <class T>
void gather_lines(const T* x, Index from_line, Index from_step, Index count, int lines, Index K,
                  Index n, T* to) {
  for (Index k = 0; k < K; ++k)
    for (Index line = 0; line < lines; ++line)
      for (int s = 0; s < strip_registers; ++s) {
        const Index left = line < count ? n - s * width<T> : 0;
        store<T>(to + ((s * K + k) * lines + line) * width<T>,
                 load_part(x + line * from_line + k * from_step + s * width<T>, left));
      }
}

template <class T>
void store_tile(const LaneSums<T>& sum, T* y, Index yi, Index yj, Index rows, Index columns,
                Index n, bool add) {
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) {
      T* const to = y + i * yi + j * yj;
      store_part<T>(to, add ? load_part(to, n) + sum[i][j] : sum[i][j], n);
    }
}

// One strip of at most strip_registers of places, and a part of the sum and of the columns.
template <class T>
void strip_product(const LaneProduct<T>& p, bool add) {
  constexpr Index column_blocks = part_columns / lane_columns;
  alignas(64) T a[strip_registers * part_sums * lane_rows * width<T>];
  alignas(64) T b[column_blocks][strip_registers * part_sums * lane_columns * width<T>];
  for (Index j = 0, block = 0; j < p.N; j += lane_columns, ++block)
    gather_lines(p.b + j * p.bn, p.bn, p.bk, p.N - j, lane_columns, p.K, p.places, b[block]);
  for (Index i = 0; i < p.M; i += lane_rows) {
    gather_lines(p.a + i * p.am, p.am, p.ak, p.M - i, lane_rows, p.K, p.places, a);
    for (Index s = 0; s * width<T> < p.places; ++s)
      for (Index j = 0, block = 0; j < p.N; j += lane_columns, ++block) {
        LaneSums<T> sum = {};
        lane_tile<T>(a + s * p.K * lane_rows * width<T>,
                     b[block] + s * p.K * lane_columns * width<T>, p.K, sum);
        const Index rows = p.M - i < lane_rows ? p.M - i : lane_rows,
                    columns = p.N - j < lane_columns ? p.N - j : lane_columns;
        store_tile<T>(sum, p.y + i * p.ym + j * p.yn + s * width<T>, p.ym, p.yn, rows, columns,
                      p.places - s * width<T>, add);
      }
  }
}

template <class T>
void lane_product(const LaneProduct<T>& whole) {
  constexpr Index strip = strip_registers * width<T>;
  const auto least = [](Index a, Index b) { return a < b ? a : b; };
  for (Index x = 0; x < whole.places; x += strip)
    for (Index j = 0; j < whole.N; j += part_columns)
      for (Index k = 0; k < whole.K; k += part_sums) {
        LaneProduct<T> part = whole;
        part.a += k * part.ak + x;
        part.b += k * part.bk + j * part.bn + x;
        part.y += j * part.yn + x;
        part.N = least(part_columns, whole.N - j), part.K = least(part_sums, whole.K - k);
        part.places = least(strip, whole.places - x);
        strip_product(part, k > 0);
      }
}

template <class T>
void fill(Rows<T>& rows) {
  rows.outer = outer<T>, rows.outer_lanes = width<T>, rows.add_lanes = add_lanes<T>;
  rows.lane_product = lane_product<T>;
}

}  // namespace

void fill_small(Table& table) { fill(table.floats), fill(table.doubles); }

}  // namespace tete::cpu_kernels::TETE_ISA
