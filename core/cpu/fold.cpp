// Sums and maxima over dimensions of one view, or of the product of two.
//
// Fixed blocks are folded one by one, their results in a balanced tree: the same bits for any
// number of threads, and an error that grows with the logarithm of the length. If the folded
// dimension has stride 1, a block runs along it; else it runs across, keeping a row of totals.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cpu/relaid.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {
namespace {

// A place in each of N inputs, and a step in each.
template <class T, int N>
using At = std::array<const T*, N>;
template <int N>
using Steps = std::array<Index, N>;

// The folds of N inputs, element by element.
template <class T>
struct SumOf {
  static constexpr T empty = 0;
  static double combine(double a, double b) { return a + b; }
  static T along(const At<T, 1>& x, const Steps<1>& s, Index n) {
    return rows<T>().sum(x[0], s[0], n);
  }
  static void across(const At<T, 1>& x, const Steps<1>& r, const Steps<1>& s, Index count, Index n,
                     T* total) {
    rows<T>().sum_across(x[0], r[0], s[0], count, n, total);
  }
  // The sum is of products, for two inputs.
  static T along(const At<T, 2>& x, const Steps<2>& s, Index n) {
    return rows<T>().dot(x[0], s[0], x[1], s[1], n);
  }
  static void across(const At<T, 2>& x, const Steps<2>& r, const Steps<2>& s, Index count, Index n,
                     T* total) {
    rows<T>().dot_across(x[0], r[0], s[0], x[1], r[1], s[1], count, n, total);
  }
};
template <class T>
struct MaxOf {
  static constexpr T empty = -std::numeric_limits<T>::infinity();
  static double combine(double a, double b) { return a > b || std::isnan(a) ? a : b; }
  static T along(const At<T, 1>& x, const Steps<1>& s, Index n) {
    return rows<T>().max(x[0], s[0], n);
  }
  static void across(const At<T, 1>& x, const Steps<1>& r, const Steps<1>& s, Index count, Index n,
                     T* total) {
    rows<T>().max_across(x[0], r[0], s[0], count, n, total);
  }
};

template <class T, int N>
struct FoldLoops {
  // The views have one shape; y has stride 0 on folded dimensions.
  FoldLoops(const View& y_view, const std::array<const View*, N>& views) : y(y_view.as<T>()) {
    for (int d = 0; d < y_view.rank(); ++d) {
      const bool folds = y_view.strides[d] == 0 && y_view.shape[d] != 1;
      (folds ? folded.shape : kept.shape).push_back(y_view.shape[d]);
      if (!folds) kept.strides[0].push_back(y_view.strides[d]);
      for (int v = 0; v < N; ++v)
        (folds ? folded.strides[v] : kept.strides[v + 1]).push_back(views[v]->strides[d]);
    }
    for (int v = 0; v < N; ++v) x[v] = views[v]->template as<T>();
    kept = collapse(kept, N == 1 ? 1 : 0);
    folded = collapse(folded, 0);
    for (int v = 0; v < N; ++v) steps[v] = folded.inner_stride(v);
  }

  // True if a row of totals at a time reads memory in its order. An input that repeats along either
  // dimension, as the vector of a product with a matrix, is short and has no say.
  bool run_across() const {
    if (kept.inner() == 1) return false;
    if (folded.inner() < 8 && kept.inner() > folded.inner()) return true;
    int votes = 0;
    for (int v = 0; v < N; ++v)
      if (kept.inner_stride(v + 1) != 0 && folded.inner_stride(v) != 0)
        votes += (kept.inner_stride(v + 1) == 1) - (folded.inner_stride(v) == 1);
    return votes == 0 ? kept.inner() >= folded.inner() : votes > 0;
  }
  double work() const {
    return static_cast<double>(kept.size()) * static_cast<double>(folded.size());
  }

  T* y;
  At<T, N> x;
  Loops<N + 1> kept;  // y, then the inputs
  Loops<N> folded;
  Steps<N> steps;  // along the innermost folded dimension
};

// One total at a time. A block is a piece of one long row, or a group of short ones.
template <class T, int N, class How>
class FoldAlong {
 public:
  explicit FoldAlong(const FoldLoops<T, N>& loops) : loops_(loops), totals_(loops.kept) {
    totals_.shape.push_back(1);
    for (Strides& s : totals_.strides) s.push_back(0);
    if (rows_ > 0 && n_ > 0) blocks_ = pieces_of(rows_, group_) * pieces_;
  }

  void run() const {
    const Index items = totals_.rows() * blocks_, folds = loops_.folded.size();
    const Index size = std::max<Index>(1, folds / blocks_);
    const Index group = std::max<Index>(1, block_size / size);
    std::vector<double> partial(blocks_ > 1 ? static_cast<size_t>(items) : 0);
    parallel_for(pieces_of(items, group), loops_.work(), [&](Index unit) {
      const Index first = unit * group, last = std::min(items, first + group);
      RowCursor<N + 1> cursor(totals_, first / blocks_);
      for (Index item = first; item < last; ++item) {
        const double total = folds == 0 ? double{How::empty} : fold(cursor, item % blocks_);
        if (blocks_ == 1) loops_.y[cursor[0]] = static_cast<T>(total);
        else partial[static_cast<size_t>(item)] = total;
        if ((item + 1) % blocks_ == 0) cursor.next();
      }
    });
    if (blocks_ > 1) add_partials(partial.data());
  }

 private:
  double fold(const RowCursor<N + 1>& at, Index block) const {
    const Index first = block / pieces_ * group_, last = std::min(rows_, first + group_);
    const Index start = block % pieces_ * length, count = std::min(length, n_ - start);
    double total = How::empty;
    RowCursor<N> cursor(loops_.folded, first);
    for (Index row = first; row < last; ++row, cursor.next()) {
      At<T, N> from;
      for (int v = 0; v < N; ++v)
        from[v] = loops_.x[v] + at[v + 1] + cursor[v] + start * loops_.steps[v];
      total = How::combine(total, How::along(from, loops_.steps, count));
    }
    return total;
  }

  void add_partials(double* partial) const {
    RowCursor<N + 1> cursor(totals_, 0);
    for (Index i = 0; i < totals_.rows(); ++i, cursor.next(), partial += blocks_) {
      join_blocks(blocks_,
                  [&](Index a, Index b) { partial[a] = How::combine(partial[a], partial[b]); });
      loops_.y[cursor[0]] = static_cast<T>(partial[0]);
    }
  }

  static constexpr Index length = 8192;  // elements that one block folds
  const FoldLoops<T, N>& loops_;
  Loops<N + 1> totals_;  // a cursor steps over every total
  const Index n_ = loops_.folded.inner(), rows_ = loops_.folded.rows();
  const Index pieces_ = pieces_of(n_, length);                               // of a row
  const Index group_ = std::max<Index>(1, length / std::max<Index>(1, n_));  // rows of a block
  Index blocks_ = 1;
};

// A row of totals at a time.
template <class T, int N, class How>
class FoldAcross {
 public:
  explicit FoldAcross(const FoldLoops<T, N>& loops) : loops_(loops) {
    for (int v = 0; v < N; ++v) column_[v] = loops.kept.inner_stride(v + 1);
  }

  void run() const {
    const Index outputs = loops_.kept.rows() * pieces_, size = outputs * blocks_ * columns_;
    const Scratch partial(static_cast<size_t>(size) * sizeof(T));
    T* const totals = partial.as<T>();
    // Blocks go one after the other, since the outputs of a block may share lines of memory.
    parallel_for(outputs * blocks_, loops_.work(), [&](Index unit) {
      const Index output = unit % outputs, block = unit / outputs;
      fold(output, block * height_, totals + (output * blocks_ + block) * columns_);
    });
    parallel_for(outputs, static_cast<double>(size),
                 [&](Index output) { join(output, totals + output * blocks_ * columns_); });
  }

 private:
  Index start(Index output) const { return output % pieces_ * widest; }
  Index count(Index output) const { return std::min(columns_, n_ - start(output)); }
  RowCursor<N + 1> row(Index output) const { return {loops_.kept, output / pieces_}; }

  // Folds a block, which begins at element `first` of the folded dimensions.
  void fold(Index output, Index first, T* total) const {
    const RowCursor<N + 1> at = row(output);
    const Index last = std::min(folds_, first + height_), length = loops_.folded.inner();
    std::fill(total, total + count(output), How::empty);
    for (Index i = first; i < last;) {
      const Index within = i % length, run = std::min(last - i, length - within);
      const RowCursor<N> folded(loops_.folded, i / length);
      At<T, N> from;
      for (int v = 0; v < N; ++v)
        from[v] = loops_.x[v] + at[v + 1] + folded[v] + within * loops_.steps[v] +
                  start(output) * column_[v];
      How::across(from, loops_.steps, column_, run, count(output), total);
      i += run;
    }
  }

  void join(Index output, T* total) const {
    const Index columns = count(output);
    join_blocks(blocks_, [&](Index a, Index b) {
      T *const to = total + a * columns_, *const from = total + b * columns_;
      for (Index j = 0; j < columns; ++j) to[j] = static_cast<T>(How::combine(to[j], from[j]));
    });
    const Index step = loops_.kept.inner_stride(0);
    T* const to = loops_.y + row(output)[0] + start(output) * step;
    for (Index j = 0; j < columns; ++j) to[j * step] = total[j];
  }

  static constexpr Index widest = 2048;  // columns that one block keeps totals for
  const FoldLoops<T, N>& loops_;
  Steps<N> column_;
  const Index n_ = loops_.kept.inner(), pieces_ = pieces_of(n_, widest);
  const Index columns_ = std::min(n_, widest), folds_ = loops_.folded.size();
  const Index height_ = std::clamp<Index>(2 * block_size / columns_, 16, 256);
  const Index blocks_ = std::max<Index>(1, pieces_of(folds_, height_));
};

// True if each total is the product of two dense rows.
template <class T>
bool are_dots(const FoldLoops<T, 2>& loops) {
  return loops.steps[0] == 1 && loops.steps[1] == 1 && loops.folded.rows() == 1 &&
         loops.folded.inner() <= block_size / 2;
}

// Computes the dots in the memory order of the operand that does not repeat: the other one, as
// a query that meets many keys, is small and stays in the cache.
template <class T>
void run_dots(const FoldLoops<T, 2>& loops) {
  const auto repeats = [&](int view) {
    const Strides& steps = loops.kept.strides[view];
    return std::find(steps.begin(), steps.end(), 0) != steps.end();
  };
  const Loops<3> kept = collapse(loops.kept, !repeats(2) ? 2 : !repeats(1) ? 1 : 0);
  const Index n = loops.folded.inner(), all = kept.inner();
  const Index group = std::max<Index>(1, block_size / std::max<Index>(1, n));
  const Index pieces = pieces_of(all, group), together = std::max<Index>(1, group / all);
  const Index items = kept.rows() * pieces;
  parallel_for(pieces_of(items, together), loops.work(), [&](Index unit) {
    const Index first = unit * together, last = std::min(items, first + together);
    RowCursor<3> at(kept, first / pieces);
    for (Index item = first; item < last; ++item) {
      const Index start = item % pieces * group;
      const auto from = [&](int view) { return at[view] + start * kept.inner_stride(view); };
      rows<T>().dots(loops.x[0] + from(1), kept.inner_stride(1), loops.x[1] + from(2),
                     kept.inner_stride(2), std::min(group, all - start), n, loops.y + from(0),
                     kept.inner_stride(0));
      if ((item + 1) % pieces == 0) at.next();
    }
  });
}

template <class T, class How, int N>
void fold_views(const View& y, const std::array<const View*, N>& x) {
  const FoldLoops<T, N> loops(y, x);
  if (loops.kept.size() == 0) return;
  if (loops.run_across()) return FoldAcross<T, N, How>(loops).run();
  if constexpr (N == 2)
    if (are_dots(loops)) return run_dots(loops);
  FoldAlong<T, N, How>(loops).run();
}

// Dimensions along which a view repeats have one place.
View without_repeats(View x) {
  for (int d = 0; d < x.rank(); ++d)
    if (x.strides[d] == 0) x.shape[d] = 1;
  return x;
}
View repeated(View x, const Shape& shape) {
  x.shape = shape;
  return x;
}

// True if x has no other dimensions than a matrix of its shape, and is small beside it.
bool is_vector_of(const View& matrix, const View& x) {
  constexpr Index much = 16;
  Index repeats = 1;
  for (int d = 0; d < x.rank(); ++d) {
    if (matrix.strides[d] == 0) return false;
    if (x.strides[d] == 0) repeats *= x.shape[d];
  }
  return repeats >= much;
}

// The strides of x, which has no repeats, in the memory order of the matrix.
Strides in_order_of(const View& matrix, const View& x) {
  Strides strides = dense_strides(x.shape, memory_order(matrix.shape, matrix.strides));
  for (int d = 0; d < x.rank(); ++d)
    if (x.shape[d] == 1) strides[d] = 0;
  return strides;
}

// Reads a matrix as it lies: what is small beside it takes its order.
template <class T>
void multiply_by_vector(const View& matrix, const View& vector, const View& y) {
  const View x = without_repeats(vector), sums = without_repeats(y);
  Relaid from(x, in_order_of(matrix, x)), to(sums, in_order_of(matrix, sums));
  const View factors = repeated(from.source(), matrix.shape);
  fold_views<T, SumOf<T>, 2>(repeated(to.target(), matrix.shape), {&factors, &matrix});
  to.finish();
}

}  // namespace

void CpuBackend::fold(Fold how, const View& x, const View& y) {
  View spread = y;  // y in x's shape
  for (int d = 0; d < x.rank(); ++d) {
    if (x.shape[d] != y.shape[d]) spread.strides[d] = 0;
    spread.shape[d] = x.shape[d];
  }
  visit(y.dtype, [&]<class T>() {
    if (how == Fold::sum) fold_views<T, SumOf<T>, 1>(spread, {&x});
    if (how == Fold::max) fold_views<T, MaxOf<T>, 1>(spread, {&x});
  });
}

void fold_product(const View& a, const View& b, const View& y) {
  visit(y.dtype, [&]<class T>() {
    if (is_vector_of(b, a) && is_vector_of(b, y)) multiply_by_vector<T>(b, a, y);
    else if (is_vector_of(a, b) && is_vector_of(a, y)) multiply_by_vector<T>(a, b, y);
    else fold_views<T, SumOf<T>, 2>(y, {&a, &b});
  });
}

}  // namespace tete::cpu_kernels
