#include "core/update.hpp"

#include <algorithm>
#include <vector>

#include "core/cpu/kernels.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"
#include "core/ops.hpp"

namespace tete {

using namespace cpu_kernels;

namespace {

// Operations for one element, roughly.
constexpr double cost = 4;
// From this many bytes on, a result does not stay in the caches until it is read.
constexpr size_t large = 8 << 20;

void check_alike(const char* what, const Tensor& p, const Tensor& other) {
  if (!(p.shape() == other.shape()) || p.dtype() != other.dtype())
    bad_input(what, ": expected tensors of one shape and type, got ",
              describe(p.dtype(), p.shape()), " and ", describe(other.dtype(), other.shape()));
}

// x with the strides of Tensor::empty_like(p): dense, in p's memory order.
Tensor in_order_of(const Tensor& p, const Tensor& x) {
  return with_layout(x.detach(), memory_order(p.shape(), p.strides()));
}

// ---- Tiles: some rows of the innermost dimension, so that memory is read in long pieces -------

constexpr Index tile_columns = 4096;
Index tile_rows(Index columns) {
  return std::max<Index>(64, 2 * block_size / std::max<Index>(1, columns));
}
Index parts(Index size, Index part) { return (size + part - 1) / part; }

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
  Index rows_ = tile_rows(loops_.inner()), down_ = parts(height(), rows_),
        right_ = parts(loops_.inner(), tile_columns);
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

std::tuple<Tensor, Tensor, Tensor> adam_update(const Tensor& p, const Tensor& g, const Tensor& m,
                                               const Tensor& v, const AdamStep& step) {
  for (const Tensor* other : {&g, &m, &v}) check_alike("Adam", p, *other);
  const Tensor old = in_order_of(p, p);
  const std::tuple made{Tensor::empty_like(p), Tensor::empty_like(p), Tensor::empty_like(p)};
  const View y = std::get<0>(made).view(), m_to = std::get<1>(made).view(),
             v_to = std::get<2>(made).view();
  const View from[] = {old.view(), g.view(), m.view(), v.view()};
  visit(p.dtype(), [&]<class T>() {
    const auto number = [](double x) { return static_cast<T>(x); };
    const AdamNumbers<T> numbers{number(step.beta1),     number(1 - step.beta1), number(step.beta2),
                                 number(1 - step.beta2), number(step.keep),      number(step.rate),
                                 number(step.unit),      number(step.epsilon)};
    const auto loops = collapse(loops_of<5>({&y, &from[0], &from[1], &from[2], &from[3]}), 0);
    for_each_row(loops, cost, [&](auto& at, Index n, Index) {
      rows<T>().adam({numbers, from[0].as<T>() + at[1], from[1].as<T>() + at[2],
                      from[2].as<T>() + at[3], from[3].as<T>() + at[4], loops.inner_stride(2),
                      loops.inner_stride(3), loops.inner_stride(4), y.as<T>() + at[0],
                      m_to.as<T>() + at[0], v_to.as<T>() + at[0], n});
    });
  });
  return made;
}

double sum_of_squares(const Tensor& x) {
  const View from = x.view();
  return visit(x.dtype(), [&]<class T>() {
    const auto loops = collapse(loops_of<1>({&from}), 0);
    return sum_of_tiles(loops, [&](const Tile<1>& tile) {
      return rows<T>().squares(from.as<T>() + tile.at[0], tile.row[0], loops.inner_stride(0),
                               tile.rows, tile.n);
    });
  });
}

namespace {

// The mean of g² over one dimension, for any strides of g. g² is not stored.
Tensor mean_square_over(const Tensor& g, int dim) {
  Labels all, left;
  for (int i = 0; i < g.rank(); ++i) {
    all.push_back(static_cast<Label>(i));
    if (i != dim) left.push_back(static_cast<Label>(i));
  }
  Shape shape = g.shape();
  shape[dim] = 1;
  return reshape(contract(g, all, g, all, left), shape) / static_cast<double>(g.size(dim));
}

// The dimensions of x in memory, but for `outer` and `inner`, which come last.
Short<int> order_of(const Tensor& x, int outer, int inner) {
  Short<int> order = memory_order(x.shape(), x.strides());
  for (int last : {outer, inner}) order.erase(order.find(last)), order.push_back(last);
  return order;
}

// Sums of g² by tiles: along rows, which have stride 1 in dimension `inner` and are counted by
// dimension `outer`, and across them. The summed dimension of a result counts tiles.
struct TileSums {
  Tensor along, across;
};
TileSums squares_by_tiles(const Tensor& g, int outer, int inner) {
  const Short<int> order = order_of(g, outer, inner);
  const Index rows_of_tile = tile_rows(g.size(inner));
  Shape right = g.shape(), down = g.shape();
  right[inner] = parts(g.size(inner), tile_columns);
  down[outer] = parts(g.size(outer), rows_of_tile);
  const auto made_as = [&](const Shape& shape) {
    return Tensor::empty_strided(shape, dense_strides(shape, order), g.dtype());
  };
  const TileSums made{made_as(right), made_as(down)};
  const View from = g.view(), along = made.along.view(), across = made.across.view();
  Loops<3> loops = loops_of<3>({&from, &along, &across});
  loops.strides[1][inner] = loops.strides[2][outer] = 0;
  const Tiles<3> tiles(reorder(loops, order));
  visit(g.dtype(), [&]<class T>() {
    tiles.for_each([&](Index number) {
      const Tile<3> tile = tiles[number];
      T* const columns =
          across.as<T>() + tile.at[2] + tile.i / rows_of_tile * across.strides[outer];
      std::fill_n(columns, tile.n, T(0));
      rows<T>().squares_both_ways(
          from.as<T>() + tile.at[0], tile.row[0], tile.rows, tile.n,
          along.as<T>() + tile.at[1] + tile.j / tile_columns * along.strides[inner], tile.row[1],
          columns);
    });
  });
  return made;
}

// The part of a product of views g, a and b that belongs to a tile.
template <class T>
ProductRows<T> product_rows(const Loops<3>& loops, const Tile<3>& tile,
                            const std::array<View, 3>& of) {
  return {.g = of[0].as<T>() + tile.at[0],
          .a = of[1].as<T>() + tile.at[1],
          .b = of[2].as<T>() + tile.at[2],
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

MeanSquares mean_squares(const Tensor& g, int d0, int d1) {
  if (g.strides()[d0] != 1 && g.strides()[d1] != 1)
    return {mean_square_over(g, d0), mean_square_over(g, d1)};
  const bool rows_of_d0 = g.strides()[d1] != 1;
  const int inner = rows_of_d0 ? d0 : d1, outer = rows_of_d0 ? d1 : d0;
  const TileSums sums = squares_by_tiles(g, outer, inner);
  const auto mean = [&](const Tensor& parts, int dim) {
    return sum(parts, {dim}, /*keep=*/true) / static_cast<double>(g.size(dim));
  };
  const Tensor over_inner = mean(sums.along, inner), over_outer = mean(sums.across, outer);
  return rows_of_d0 ? MeanSquares{over_inner, over_outer} : MeanSquares{over_outer, over_inner};
}

double sum_of_squares_of_product(const Tensor& g, const Tensor& a, const Tensor& b) {
  for (const Tensor* other : {&a, &b}) check_alike("the sum of a product's squares", g, *other);
  const std::array<View, 3> of{g.view(), a.view(), b.view()};
  const auto loops = collapse(loops_of<3>({&of[0], &of[1], &of[2]}), 0);
  return visit(g.dtype(), [&]<class T>() {
    return sum_of_tiles(
        loops,
        [&](const Tile<3>& tile) {
          return rows<T>().product_squares(product_rows<T>(loops, tile, of));
        },
        Order::backwards);
  });
}

UpdatedParameter minus_product(const Tensor& p, const Tensor& g, const Tensor& a, const Tensor& b,
                               double rate) {
  for (const Tensor* other : {&g, &a, &b}) check_alike("p - rate g a b", p, *other);
  const Tensor from = in_order_of(p, p), along = in_order_of(p, g), made = Tensor::empty_like(p);
  const bool past_caches = static_cast<size_t>(p.size()) * size_of(p.dtype()) >= large;
  const View old = from.view(), y = made.view();
  const std::array<View, 3> of{along.view(), a.view(), b.view()};
  const auto loops = collapse(loops_of<3>({&of[0], &of[1], &of[2]}), 0);
  return {made, visit(p.dtype(), [&]<class T>() {
            return sum_of_tiles(loops, [&](const Tile<3>& tile) {
              return rows<T>().minus_product(product_rows<T>(loops, tile, of),
                                             old.as<T>() + tile.at[0], static_cast<T>(rate),
                                             y.as<T>() + tile.at[0], past_caches);
            });
          })};
}

double sum_of_squares_of_moved(const Tensor& p, const Tensor& a, const Tensor& b) {
  for (const Tensor* other : {&a, &b}) check_alike("the sum of p's squares", p, *other);
  const Tensor dense = in_order_of(p, p);
  const View x = dense.view(), first = a.view(), second = b.view();
  const auto loops = collapse(loops_of<3>({&x, &first, &second}), 0);
  return visit(p.dtype(), [&]<class T>() {
    return sum_of_tiles(loops, [&](const Tile<3>& tile) {
      const T one = 1;
      return rows<T>().product_squares({x.as<T>() + tile.at[0], &one, &one, tile.row[0], 0, 0,
                                        loops.inner_stride(0), 0, 0, tile.rows, tile.n});
    });
  });
}

}  // namespace tete
