// Updates of parameters: each reads its arguments once and writes its result once. Sums run in
// blocks that follow from sizes alone, added in their order.
#include <algorithm>
#include <numeric>
#include <vector>

#include "core/cpu/backend.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"
#include "core/update.hpp"

namespace tete::cpu_kernels {
namespace {

// Operations for one element, roughly.
constexpr double cost = 4;

// ---- Tiles: some rows of the innermost dimension, so that memory is read in long pieces -------

constexpr Index tile_columns = row_of_squares;
Index tile_rows(Index columns) {
  return std::max<Index>(64, 2 * block_size / std::max<Index>(1, columns));
}

template <int N>
struct Tile {
  Index i, j, rows, n;           // its first row and column, and its size
  std::array<Index, N> at, row;  // for every view: where it begins, and the step to the next row
};

// The tiles of the two innermost dimensions, which are cut by their sizes alone.
template <int N>
class Tiles {
 public:
  explicit Tiles(const Loops<N>& loops)
      : loops_(loops), matrices_(loops), outer_(loops.shape.size() - 2) {
    matrices_.shape[outer_] = matrices_.shape[outer_ + 1] = 1;
  }
  Index count() const { return matrices_.rows() * down_ * right_; }

  Tile<N> operator[](Index number) const {
    const Index i = number / right_ % down_ * rows_, j = number % right_ * tile_columns;
    Tile<N> tile{i,
                 j,
                 std::min(rows_, height() - i),
                 std::min(tile_columns, loops_.inner() - j),
                 RowCursor<N>(matrices_, number / (down_ * right_)).offsets(),
                 {}};
    for (int v = 0; v < N; ++v) {
      tile.row[v] = loops_.strides[v][outer_];
      tile.at[v] += i * tile.row[v] + j * loops_.inner_stride(v);
    }
    return tile;
  }

  // body(number) for every tile.
  template <class Body>
  void for_each(const Body& body) const {
    parallel_for(count(), cost * static_cast<double>(loops_.size()), body);
  }

 private:
  Index height() const { return loops_.shape[outer_]; }

  Loops<N> loops_, matrices_;
  int outer_;
  Index rows_ = tile_rows(loops_.inner()), down_ = pieces_of(height(), rows_),
        right_ = pieces_of(loops_.inner(), tile_columns);
};

enum class Order { forwards, backwards };

// Σ body(tile), added in the order of the tiles; a single dimension is cut into rows. Backwards,
// the last tile runs first, as the caches may still have the tensor's end.
template <int N, class Body>
double sum_of_tiles(Loops<N> loops, const Body& body, Order order = Order::forwards) {
  double total = 0;
  if (loops.shape.size() == 1) {
    const Index n = loops.inner(), columns = std::max<Index>(1, std::min(n, tile_columns)),
                whole = n / columns;
    Tile<N> rest{whole, 0, 1, n % columns, {}, {}};
    for (int v = 0; v < N; ++v) {
      const Index stride = loops.inner_stride(v);
      rest.at[v] = whole * columns * stride;
      loops.strides[v] = {columns * stride, stride};
    }
    loops.shape = {whole, columns};
    if (rest.n > 0) total = body(rest);
  }
  const Tiles<N> tiles(loops);
  std::vector<double> sums(static_cast<size_t>(tiles.count()));
  tiles.for_each([&](Index turn) {
    const Index number = order == Order::forwards ? turn : tiles.count() - 1 - turn;
    sums[static_cast<size_t>(number)] = body(tiles[number]);
  });
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace

bool CpuBackend::adam(const View& p, const View& g, const View& m, const View& v,
                      const AdamStep& step) {
  visit(p.dtype, [&]<class T>() {
    const auto number = [](double x) { return static_cast<T>(x); };
    const AdamNumbers<T> numbers{number(step.beta1),     number(1 - step.beta1), number(step.beta2),
                                 number(1 - step.beta2), number(step.keep),      number(step.rate),
                                 number(step.unit),      number(step.epsilon)};
    const auto loops = collapse(loops_of<2>({&p, &g}), 0);
    for_each_row(loops, cost, [&](auto& at, Index n, Index) {
      rows<T>().adam(numbers, p.as<T>() + at[0], g.as<T>() + at[1], loops.inner_stride(1),
                     m.as<T>() + at[0], v.as<T>() + at[0], n);
    });
  });
  return true;
}

bool CpuBackend::sum_of_squares(const View& x, const View& sum) {
  visit(x.dtype, [&]<class T>() {
    const auto loops = collapse(loops_of<1>({&x}), 0);
    *sum.as<double>() = sum_of_tiles(loops, [&](const Tile<1>& tile) {
      return rows<T>().squares(x.as<T>() + tile.at[0], tile.row[0], loops.inner_stride(0),
                               tile.rows, tile.n);
    });
  });
  return true;
}

namespace {

// The dimensions of x in memory, but for `outer` and `inner`, which come last.
Short<int> order_of(const View& x, int outer, int inner) {
  Short<int> order = memory_order(x.shape, x.strides);
  for (int last : {outer, inner}) order.erase(order.find(last)), order.push_back(last);
  return order;
}

// Memory for the sums of some tiles: as x, but for the dimension whose sums they are, which counts
// tiles.
struct TileSums {
  TileSums(const View& x, int summed, Index tiles, const Short<int>& order)
      : view{x.dtype, x.shape, {}, nullptr},
        memory(static_cast<size_t>(x.size() / std::max<Index>(1, x.shape[summed]) * tiles) *
               size_of(x.dtype)) {
    view.shape[summed] = tiles;
    view.strides = dense_strides(view.shape, order);
    view.data = memory.as<void>();
  }
  View view;
  Scratch memory;
};

// Sums of g² by tiles: along rows, which have stride 1 in dimension `inner` and are counted by
// dimension `outer`, and across them.
void squares_by_tiles(const View& g, int outer, int inner, const Short<int>& order,
                      const View& along, const View& across) {
  const Index rows_of_tile = tile_rows(g.shape[inner]);
  Loops<3> loops{g.shape, {g.strides, along.strides, across.strides}};
  loops.strides[1][inner] = loops.strides[2][outer] = 0;
  const Tiles<3> tiles(reorder(loops, order));
  visit(g.dtype, [&]<class T>() {
    tiles.for_each([&](Index number) {
      const Tile<3> tile = tiles[number];
      T* const columns =
          across.as<T>() + tile.at[2] + tile.i / rows_of_tile * across.strides[outer];
      std::fill_n(columns, tile.n, T(0));
      rows<T>().squares_both_ways(
          g.as<T>() + tile.at[0], tile.row[0], tile.rows, tile.n,
          along.as<T>() + tile.at[1] + tile.j / tile_columns * along.strides[inner], tile.row[1],
          columns);
    });
  });
}

// The part of a product of views g, a and b that belongs to a tile.
template <class T>
ProductRows<T> product_rows(const Loops<3>& loops, const Tile<3>& tile, const View& g,
                            const View& a, const View& b) {
  return {.g = g.as<T>() + tile.at[0],
          .a = a.as<T>() + tile.at[1],
          .b = b.as<T>() + tile.at[2],
          .rg = tile.row[0],
          .ra = tile.row[1],
          .rb = tile.row[2],
          .sg = loops.inner_stride(0),
          .sa = loops.inner_stride(1),
          .sb = loops.inner_stride(2),
          .rows = tile.rows,
          .n = tile.n};
}

}  // namespace

// Only where g has stride 1 along one of the two dimensions.
bool CpuBackend::squares_over(const View& g, int d0, int d1, const View& over_d0,
                              const View& over_d1) {
  const bool rows_of_d0 = g.strides[d1] != 1;
  const int inner = rows_of_d0 ? d0 : d1, outer = rows_of_d0 ? d1 : d0;
  if (g.strides[inner] != 1) return false;
  const Short<int> order = order_of(g, outer, inner);
  const TileSums along(g, inner, pieces_of(g.shape[inner], tile_columns), order),
      across(g, outer, pieces_of(g.shape[outer], tile_rows(g.shape[inner])), order);
  squares_by_tiles(g, outer, inner, order, along.view, across.view);
  fold(Fold::sum, along.view, rows_of_d0 ? over_d0 : over_d1);
  fold(Fold::sum, across.view, rows_of_d0 ? over_d1 : over_d0);
  return true;
}

bool CpuBackend::sum_of_squares_of_product(const View& g, const View& a, const View& b,
                                           const View& sum) {
  const auto loops = collapse(loops_of<3>({&g, &a, &b}), 0);
  visit(g.dtype, [&]<class T>() {
    *sum.as<double>() = sum_of_tiles(
        loops,
        [&](const Tile<3>& tile) {
          return rows<T>().product_squares(product_rows<T>(loops, tile, g, a, b));
        },
        Order::backwards);
  });
  return true;
}

bool CpuBackend::minus_product(const View& p, const View& g, const View& a, const View& b,
                               const View& rate, const View& p_to, const View& sum) {
  const auto loops = collapse(loops_of<3>({&g, &a, &b}), 0);
  visit(p.dtype, [&]<class T>() {
    const T step = static_cast<T>(*rate.as<double>());
    *sum.as<double>() = sum_of_tiles(loops, [&](const Tile<3>& tile) {
      return rows<T>().minus_product(product_rows<T>(loops, tile, g, a, b), p.as<T>() + tile.at[0],
                                     step, p_to.as<T>() + tile.at[0]);
    });
  });
  return true;
}

}  // namespace tete::cpu_kernels

namespace tete {

// Adds the sums in the order of sum_of_tiles.
double sum_of_rows(std::span<const double> rows, Index n) {
  double total = 0;
  if (n % row_of_squares > 0) total = rows.back(), rows = rows.first(rows.size() - 1);
  const auto tile = static_cast<size_t>(cpu_kernels::tile_rows(row_of_squares));
  for (; !rows.empty(); rows = rows.subspan(std::min(tile, rows.size())))
    total += std::accumulate(rows.begin(), rows.begin() + std::min(tile, rows.size()), 0.0);
  return total;
}

}  // namespace tete
