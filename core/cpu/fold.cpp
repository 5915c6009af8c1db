// Sums and maxima over dimensions of one view, or of the product of two.
//
// Fixed blocks are folded one by one, their results in a balanced tree: the same bits for any
// number of threads, and an error that grows with the logarithm of the length. If the folded
// dimension has stride 1, a block runs along it; else it runs across, keeping a row of totals.
#include <cmath>
#include <limits>
#include <vector>

#include "core/cpu/backend.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {
namespace {

// The folds of N inputs, element by element.
template <class T>
struct SumOf {
  static constexpr T empty = 0;
  static double combine(double a, double b) { return a + b; }
  using At = std::array<const T*, 1>;
  using Step = std::array<Index, 1>;
  static T along(const At& x, const Step& s, Index n) { return rows<T>().sum(x[0], s[0], n); }
  static void across(const At& x, const Step& r, const Step& s, Index count, Index n, T* total) {
    rows<T>().sum_across(x[0], r[0], s[0], count, n, total);
  }
};
template <class T>
struct MaxOf {
  static constexpr T empty = -std::numeric_limits<T>::infinity();
  static double combine(double a, double b) { return a > b || std::isnan(a) ? a : b; }
  using At = std::array<const T*, 1>;
  using Step = std::array<Index, 1>;
  static T along(const At& x, const Step& s, Index n) { return rows<T>().max(x[0], s[0], n); }
  static void across(const At& x, const Step& r, const Step& s, Index count, Index n, T* total) {
    rows<T>().max_across(x[0], r[0], s[0], count, n, total);
  }
};
template <class T>
struct DotOf {
  static constexpr T empty = 0;
  static double combine(double a, double b) { return a + b; }
  using At = std::array<const T*, 2>;
  using Step = std::array<Index, 2>;
  static T along(const At& x, const Step& s, Index n) {
    return rows<T>().dot(x[0], s[0], x[1], s[1], n);
  }
  static void across(const At& x, const Step& r, const Step& s, Index count, Index n, T* total) {
    rows<T>().dot_across(x[0], r[0], s[0], x[1], r[1], s[1], count, n, total);
  }
};

// Elements that one block folds along; columns that one block keeps totals for.
constexpr Index along_block = 8192, across_columns = 2048;

template <class T, int N, class How>
class Folding {
 public:
  // The views have one shape; y has stride 0 on folded dimensions.
  Folding(const View& y, const std::array<const View*, N>& x) : y_(y.as<T>()) {
    Loops<N + 1> kept;
    Loops<N> folded;
    for (int d = 0; d < y.rank(); ++d) {
      const bool folds = y.strides[d] == 0 && y.shape[d] != 1;
      (folds ? folded.shape : kept.shape).push_back(y.shape[d]);
      if (!folds) kept.strides[0].push_back(y.strides[d]);
      for (int v = 0; v < N; ++v)
        (folds ? folded.strides[v] : kept.strides[v + 1]).push_back(x[v]->strides[d]);
    }
    for (int v = 0; v < N; ++v) x_[v] = x[v]->template as<T>();
    kept_ = collapse(kept, N == 1 ? 1 : 0);
    folded_ = collapse(folded, 0);
  }

  void run() {
    if (kept_.size() == 0) return;
    runs_across() ? across() : along();
  }

 private:
  using At = typename How::At;
  using Step = typename How::Step;

  bool runs_across() const {
    if (kept_.inner() == 1) return false;
    if (folded_.inner() < 8 && kept_.inner() > folded_.inner()) return true;
    int votes = 0;
    for (int v = 0; v < N; ++v)
      votes += (kept_.inner_stride(v + 1) == 1) - (folded_.inner_stride(v) == 1);
    return votes == 0 ? kept_.inner() >= folded_.inner() : votes > 0;
  }
  Step folded_steps() const {
    Step steps;
    for (int v = 0; v < N; ++v) steps[v] = folded_.inner_stride(v);
    return steps;
  }
  double work() const {
    return static_cast<double>(kept_.size()) * static_cast<double>(folded_.size());
  }

  // ---- along: one total at a time ----------------------------------------------------------
  // A block is a piece of one long row, or a group of short ones.
  double along_one(const At& x, Index block) const {
    const Index n = folded_.inner(), rows = folded_.rows();
    const Index pieces = (n + along_block - 1) / along_block;
    const Index group = std::max<Index>(1, along_block / std::max<Index>(1, n));
    const Index first = block / pieces * group, last = std::min(rows, first + group);
    const Index start = block % pieces * along_block, count = std::min(along_block, n - start);
    const Step steps = folded_steps();
    double total = How::empty;
    RowCursor<N> cursor(folded_, first);
    for (Index row = first; row < last; ++row, cursor.next()) {
      At from;
      for (int v = 0; v < N; ++v) from[v] = x[v] + cursor[v] + start * steps[v];
      total = How::combine(total, How::along(from, steps, count));
    }
    return total;
  }
  Index along_blocks() const {
    const Index n = folded_.inner(), rows = folded_.rows();
    if (n == 0 || rows == 0) return 1;
    const Index group = std::max<Index>(1, along_block / n);
    return (rows + group - 1) / group * ((n + along_block - 1) / along_block);
  }
  void along() const {
    Loops<N + 1> totals = kept_;  // a cursor that steps over every total
    totals.shape.push_back(1);
    for (Strides& s : totals.strides) s.push_back(0);
    const bool empty = folded_.size() == 0;
    const Index blocks = along_blocks(), items = totals.rows() * blocks;
    const Index size = empty ? 1 : std::max<Index>(1, folded_.size() / blocks);
    const Index group = std::max<Index>(1, block_size / size);
    std::vector<double> partial(blocks > 1 ? static_cast<size_t>(items) : 0);
    parallel_for((items + group - 1) / group, work(), [&](Index unit) {
      const Index first = unit * group, last = std::min(items, first + group);
      RowCursor<N + 1> cursor(totals, first / blocks);
      for (Index item = first; item < last; ++item) {
        At x;
        for (int v = 0; v < N; ++v) x[v] = x_[v] + cursor[v + 1];
        const double total = empty ? double{How::empty} : along_one(x, item % blocks);
        if (blocks == 1) y_[cursor[0]] = static_cast<T>(total);
        if (blocks > 1) partial[static_cast<size_t>(item)] = total;
        if ((item + 1) % blocks == 0) cursor.next();
      }
    });
    if (blocks > 1) add_partials(totals, partial.data(), blocks);
  }
  void add_partials(const Loops<N + 1>& totals, double* partial, Index blocks) const {
    RowCursor<N + 1> cursor(totals, 0);
    for (Index i = 0; i < totals.rows(); ++i, cursor.next(), partial += blocks) {
      for (Index step = 1; step < blocks; step *= 2)
        for (Index b = 0; b + step < blocks; b += 2 * step)
          partial[b] = How::combine(partial[b], partial[b + step]);
      y_[cursor[0]] = static_cast<T>(partial[0]);
    }
  }

  // ---- across: a row of totals at a time ---------------------------------------------------
  void across() const {
    const Index n = kept_.inner(), pieces = (n + across_columns - 1) / across_columns;
    const Index columns = std::min(n, across_columns), folds = folded_.size();
    const Index height = std::clamp<Index>(2 * block_size / columns, 16, 256);
    const Index blocks = std::max<Index>(1, (folds + height - 1) / height);
    const Index outputs = kept_.rows() * pieces;
    const Scratch partial(static_cast<size_t>(outputs * blocks * columns) * sizeof(T));
    T* const totals = partial.as<T>();
    parallel_for(outputs * blocks, work(), [&](Index unit) {
      const Index output = unit / blocks, first = unit % blocks * height;
      const Index start = output % pieces * across_columns;
      T* const total = totals + unit * columns;
      const Index count = std::min(columns, n - start);
      std::fill(total, total + count, How::empty);
      const RowCursor<N + 1> at(kept_, output / pieces);
      across_block(at, start, count, first, std::min(folds, first + height), total);
    });
    parallel_for(outputs, static_cast<double>(outputs * blocks * columns), [&](Index output) {
      T* const total = totals + output * blocks * columns;
      const Index start = output % pieces * across_columns, count = std::min(columns, n - start);
      for (Index step = 1; step < blocks; step *= 2)
        for (Index b = 0; b + step < blocks; b += 2 * step)
          for (Index j = 0; j < count; ++j)
            total[b * columns + j] = static_cast<T>(
                How::combine(total[b * columns + j], total[(b + step) * columns + j]));
      const Index sy = kept_.inner_stride(0);
      T* const to = y_ + RowCursor<N + 1>(kept_, output / pieces)[0] + start * sy;
      for (Index j = 0; j < count; ++j) to[j * sy] = total[j];
    });
  }
  // Folds elements first … last-1 of the folded dimensions into `count` totals.
  void across_block(const RowCursor<N + 1>& at, Index start, Index count, Index first, Index last,
                    T* total) const {
    const Index length = folded_.inner();
    const Step steps = folded_steps();
    Step columns;
    for (int v = 0; v < N; ++v) columns[v] = kept_.inner_stride(v + 1);
    for (Index i = first; i < last;) {
      const Index within = i % length, run = std::min(last - i, length - within);
      const RowCursor<N> row(folded_, i / length);
      At from;
      for (int v = 0; v < N; ++v)
        from[v] = x_[v] + at[v + 1] + row[v] + within * steps[v] + start * columns[v];
      How::across(from, steps, columns, run, count, total);
      i += run;
    }
  }

  T* y_;
  At x_;
  Loops<N + 1> kept_;  // y, then the inputs
  Loops<N> folded_;
};

}  // namespace

void CpuBackend::fold(Fold how, const View& x, const View& y) {
  View spread = y;  // y in x's shape
  for (int d = 0; d < x.rank(); ++d) {
    if (x.shape[d] != y.shape[d]) spread.strides[d] = 0;
    spread.shape[d] = x.shape[d];
  }
  visit(y.dtype, [&]<class T>() {
    if (how == Fold::sum) Folding<T, 1, SumOf<T>>(spread, {&x}).run();
    if (how == Fold::max) Folding<T, 1, MaxOf<T>>(spread, {&x}).run();
  });
}

void fold_product(const View& a, const View& b, const View& y) {
  visit(y.dtype, [&]<class T>() { Folding<T, 2, DotOf<T>>(y, {&a, &b}).run(); });
}

}  // namespace tete::cpu_kernels
