// A contraction as products of matrices (multiply.cpp). A plan chooses the dimensions of the
// matrices and of the loops around them, and operands to copy first to better strides; the plan
// with the shortest estimated time is taken. Strides that a leading dimension or a transpose can
// express need no copy.
//
// The result is cut into tiles, and every tile is one call on one thread.
#include "core/cpu/matrices.hpp"

#include <algorithm>
#include <climits>

#include "core/cpu/blas.hpp"
#include "core/cpu/relaid.hpp"
#include "core/threads.hpp"

namespace tete::cpu_kernels {
namespace {

// The dimensions in the memory order of `lead`, with neighbours merged that all of `operands` step
// over in one stride.
Dims merged(Dims dims, Operand lead, std::initializer_list<Operand> operands) {
  std::stable_sort(dims.begin(), dims.end(),
                   [lead](const Dim& a, const Dim& b) { return a.stride[lead] > b.stride[lead]; });
  Dims joined;
  for (const Dim& d : dims) {
    bool joins = !joined.empty();
    for (Operand v : operands) joins = joins && joined.back().stride[v] == d.stride[v] * d.size;
    if (!joins) {
      joined.push_back(d);
      continue;
    }
    joined.back().size *= d.size;
    joined.back().stride = d.stride;
  }
  return joined;
}
}  // namespace

Groups merged(const Groups& groups) {
  return {merged(groups.batch, in_y, {in_a, in_b, in_y}), merged(groups.m, in_y, {in_a, in_y}),
          merged(groups.n, in_y, {in_b, in_y}), merged(groups.k, in_a, {in_a, in_b})};
}

namespace {

// Gives an operand dense strides, dimensions in the order of these groups, outermost first; each
// group in the memory order of the operand that shares it.
struct Shared {
  Dims* dims;
  Operand other;
};
void lay_out(Operand operand, std::initializer_list<Shared> outermost_first) {
  Index stride = 1;
  for (auto group = outermost_first.end(); group-- != outermost_first.begin();) {
    Dims& dims = *group->dims;
    std::stable_sort(dims.begin(), dims.end(), [&](const Dim& a, const Dim& b) {
      return a.stride[group->other] > b.stride[group->other];
    });
    for (int d = dims.size() - 1; d >= 0; --d) {
      dims[d].stride[operand] = stride;
      stride *= dims[d].size;
    }
  }
}

// A product wants one stride 1 and lines that do not overlap.
bool is_matrix(const Dim& row, const Dim& column, Operand v) {
  const Index r = row.stride[v], c = column.stride[v];
  return std::max(r, c) <= INT_MAX && ((r == 1 && c >= row.size) || (c == 1 && r >= column.size));
}

Dims without(Dims dims, int at) { return dims.erase(at), dims; }
Dims joined(const Dims& a, const Dims& b, const Dims& c) {
  Dims all = a;
  for (const Dims* more : {&b, &c})
    for (const Dim& d : *more) all.push_back(d);
  return all;
}

// The estimated multiplications and additions in a second: products slow down if a side is short.
double rate_of(double m, double n, double k) {
  const auto fullness = [](double size, double half) { return size / (size + half); };
  return 1e11 * fullness(m, 12) * fullness(n, 12) * fullness(k, 32);
}

// The estimated time of a plan's products.
double product_seconds(const MatrixPlan& plan) {
  const double calls = static_cast<double>(size_of(plan.outputs) * size_of(plan.sums));
  const double m = static_cast<double>(plan.m.size), n = static_cast<double>(plan.n.size),
               k = static_cast<double>(plan.k.size);
  // The result is read again for every further part of a sum.
  const double again = static_cast<double>(size_of(plan.sums) - 1) * m * n *
                       static_cast<double>(size_of(plan.outputs)) * 1e-10;
  return calls * (2 * m * n * k / rate_of(m, n, k) + 2e-7) + again;
}

// Finds the best matrix dimensions for operands with the strides of `laid`.
void consider(const Groups& laid, std::array<bool, 3> packed, double copying, MatrixPlan& best) {
  const Groups groups = merged(laid);
  for (int m = 0; m < groups.m.size(); ++m)
    for (int n = 0; n < groups.n.size(); ++n)
      for (int k = 0; k < groups.k.size(); ++k) {
        MatrixPlan plan{0, packed, laid, groups.m[m], groups.n[n], groups.k[k], {}, {}};
        if (!is_matrix(plan.m, plan.k, in_a) || !is_matrix(plan.k, plan.n, in_b) ||
            !is_matrix(plan.m, plan.n, in_y))
          continue;
        plan.outputs = joined(groups.batch, without(groups.m, m), without(groups.n, n));
        plan.sums = without(groups.k, k);
        plan.seconds = copying + product_seconds(plan);
        if (plan.seconds < best.seconds) best = plan;
      }
}

}  // namespace

MatrixPlan plan_matrices(const Groups& groups, std::array<bool, 3> may_pack) {
  const double batch = static_cast<double>(size_of(groups.batch)),
               m = static_cast<double>(size_of(groups.m)),
               n = static_cast<double>(size_of(groups.n)),
               k = static_cast<double>(size_of(groups.k));
  const std::array<double, 3> numbers{batch * m * k, batch * k * n, batch * m * n};
  constexpr double copied = 1e-9, call = 2e-6;  // seconds
  MatrixPlan best;
  for (int which = 0; which < 8; ++which) {
    const std::array<bool, 3> packed{(which & 1) != 0, (which & 2) != 0, (which & 4) != 0};
    bool allowed = true;
    double copying = 0;
    for (Operand v : {in_y, in_a, in_b})
      if (packed[v]) allowed = allowed && may_pack[v], copying += call + numbers[v] * copied;
    if (!allowed || copying >= best.seconds) continue;
    Groups laid = groups;
    if (packed[in_y]) lay_out(in_y, {{&laid.batch, in_a}, {&laid.m, in_a}, {&laid.n, in_b}});
    if (packed[in_a]) lay_out(in_a, {{&laid.batch, in_y}, {&laid.m, in_y}, {&laid.k, in_b}});
    if (packed[in_b]) lay_out(in_b, {{&laid.batch, in_y}, {&laid.k, in_a}, {&laid.n, in_y}});
    consider(laid, packed, copying, best);
    if (best.seconds < 2 * batch * m * n * k / rate_of(m, n, k) + call) break;  // no copy can gain
  }
  return best;
}

namespace {

// ---- Tiles -----------------------------------------------------------------------------------

// The number of tiles that a product is cut into at least: as few as the threads need, as each
// reads its part of B, or lays it out, for itself.
template <class X>
Index enough_tiles() {
  constexpr Index for_a_thread = 4, whatever_threads = 16;
  if (!cuts_keep_bits<X>()) return whatever_threads;
  return threads_here() == 1 ? 1 : for_a_thread * threads_here();
}

// The tiles of m × n results. They are halved until there are enough, but are never so small that
// products slow down.
struct Grid {
  Index rows, columns;  // the size of a tile
  Index down, right;    // the number of tiles

  Grid(Index m, Index n, Index k, Index matrices, Index enough) {
    constexpr double least_work = 5e5;  // multiplications in a tile
    Index cut_m = 1, cut_n = 1;
    for (;;) {
      rows = pieces_of(m, cut_m), columns = pieces_of(n, cut_n);
      if (cut_m * cut_n * matrices >= enough) break;
      if (static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(k) <
          2 * least_work)
        break;
      if (std::max(rows, columns) < 64) break;
      (rows >= columns ? cut_m : cut_n) *= 2;
    }
    rows = in_lines(rows, m), columns = in_lines(columns, n);
    down = pieces_of(m, rows), right = pieces_of(n, columns);
  }
  // A multiple of 16, at which products are fastest.
  static Index in_lines(Index tile, Index whole) { return std::min(whole, rounded_up(tile, 16)); }
};

template <class X, class Z>
struct Pointers {
  const X *a, *b;
  Z* y;
};

// One tile of one matrix: a product, and one more for every further part of the sum.
template <class X, class Z>
void compute_tile(const MatrixPlan& plan, const Loops<3>& sums, const Pointers<X, Z>& at, Index i,
                  Index j, Index rows, Index columns) {
  const Dim &m = plan.m, &n = plan.n, &k = plan.k;
  Z* const y = at.y + i * m.stride[in_y] + j * n.stride[in_y];
  RowCursor<3> sum(sums, 0);
  for (Index part = 0; part < sums.rows(); ++part, sum.next())
    multiply<X, Z>(rows, columns, k.size,
                   {at.a + sum[in_a] + i * m.stride[in_a], m.stride[in_a], k.stride[in_a]},
                   {at.b + sum[in_b] + j * n.stride[in_b], k.stride[in_b], n.stride[in_b]},
                   {y, m.stride[in_y], n.stride[in_y]}, part > 0);
}

// Replaces a transposed B, which several rows of tiles would each lay out, by a copy in lines.
template <class X, class Z>
void bring_in_lines(MatrixPlan& plan, Pointers<X, Z>& at) {
  Dim &k = plan.k, &n = plan.n;
  const Matrix<const X> B = in_lines<X>(k.size, n.size, {at.b, k.stride[in_b], n.stride[in_b]});
  at.b = B.data, k.stride[in_b] = B.row, n.stride[in_b] = B.column;
}

template <class X, class Z>
void run(MatrixPlan plan, Pointers<X, Z> at) {
  const Loops<3> outputs = loops_over(plan.outputs), sums = loops_over(plan.sums);
  const Index k = plan.k.size * sums.rows();
  const Grid grid(plan.m.size, plan.n.size, k, outputs.rows(), enough_tiles<X>());
  const Index tiles = outputs.rows() * grid.down * grid.right;
  const double tile_work =
      static_cast<double>(grid.rows) * static_cast<double>(grid.columns) * static_cast<double>(k);
  // Small matrices are computed several at a time.
  const Index group = std::max<Index>(1, static_cast<Index>(2e5 / std::max(1.0, tile_work)));
  if constexpr (!std::is_same_v<X, Bf16>)
    if (cuts_keep_bits<X>() && grid.down > 1 && outputs.rows() * sums.rows() == 1 &&
        plan.n.stride[in_y] == 1)
      bring_in_lines(plan, at);
  const BlasOnOneThread blas;
  parallel_for(pieces_of(tiles, group), tile_work * static_cast<double>(tiles), [&](Index unit) {
    for (Index t = unit * group; t < std::min(tiles, (unit + 1) * group); ++t) {
      const RowCursor<3> output(outputs, t / (grid.down * grid.right));
      const Index i = t / grid.right % grid.down * grid.rows, j = t % grid.right * grid.columns;
      compute_tile(
          plan, sums, Pointers<X, Z>{at.a + output[in_a], at.b + output[in_b], at.y + output[in_y]},
          i, j, std::min(grid.rows, plan.m.size - i), std::min(grid.columns, plan.n.size - j));
    }
  });
}

// An operand or the result, laid out as planned.
template <class T>
Relaid as_planned(const MatrixPlan& plan, Operand v, T* data) {
  View view{dtype_of<T>(), {}, {}, data};
  Strides planned;
  const Dims* own[3][3] = {{&plan.laid.batch, &plan.laid.m, &plan.laid.k},
                           {&plan.laid.batch, &plan.laid.k, &plan.laid.n},
                           {&plan.laid.batch, &plan.laid.m, &plan.laid.n}};
  for (const Dims* dims : own[v])
    for (const Dim& d : *dims) {
      view.shape.push_back(d.size);
      view.strides.push_back(d.before[v]);
      planned.push_back(d.stride[v]);
    }
  return {view, planned};
}

}  // namespace

template <class X, class Z>
void multiply_matrices(const MatrixPlan& plan, X* A, X* B, Z* Y) {
  if (plan.packed == std::array<bool, 3>{}) return run(plan, Pointers<X, Z>{A, B, Y});
  Relaid a = as_planned(plan, in_a, A), b = as_planned(plan, in_b, B),
         y = as_planned(plan, in_y, Y);
  run(plan, Pointers<X, Z>{a.source().template as<X>(), b.source().template as<X>(),
                           y.target().template as<Z>()});
  y.finish();
}

template void multiply_matrices(const MatrixPlan&, float*, float*, float*);
template void multiply_matrices(const MatrixPlan&, double*, double*, double*);
template void multiply_matrices(const MatrixPlan&, Bf16*, Bf16*, float*);

}  // namespace tete::cpu_kernels
