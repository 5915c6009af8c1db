// Walking over views of one shape together: dimensions are put in order and merged, and the
// elements are cut into blocks of rows by sizes alone.
#pragma once
#include <array>

#include "core/shape.hpp"
#include "core/threads.hpp"

namespace tete::cpu_kernels {

// Elements in a block of work: large enough to pay for a thread, small enough for the caches.
inline constexpr Index block_size = 16384;

// The dimensions of N views, outermost first. There is always an innermost one.
template <int N>
struct Loops {
  Shape shape;
  std::array<Strides, N> strides;

  Index inner() const { return shape.back(); }
  Index rows() const {
    Index count = 1;
    for (int d = 0; d + 1 < shape.size(); ++d) count *= shape[d];
    return count;
  }
  Index size() const { return rows() * inner(); }
  Index inner_stride(int view) const { return strides[view].back(); }
};

// Merges dimension d into d - 1 wherever all views step over both in one stride.
template <int N>
Loops<N> merge(const Loops<N>& loops) {
  Loops<N> merged;
  for (int d = 0; d < loops.shape.size(); ++d) {
    if (loops.shape[d] == 1) continue;
    bool joins = !merged.shape.empty();
    for (int v = 0; joins && v < N; ++v)
      joins = merged.strides[v].back() == loops.strides[v][d] * loops.shape[d];
    if (joins) merged.shape.back() *= loops.shape[d];
    if (!joins) merged.shape.push_back(loops.shape[d]);
    for (int v = 0; v < N; ++v) {
      if (!joins) merged.strides[v].push_back(0);
      merged.strides[v].back() = loops.strides[v][d];
    }
  }
  if (merged.shape.empty()) {
    merged.shape.push_back(1);
    for (Strides& s : merged.strides) s.push_back(1);
  }
  return merged;
}

// The same elements, with dimension order[0] outermost.
template <int N>
Loops<N> reorder(const Loops<N>& loops, const Short<int>& order) {
  Loops<N> sorted;
  for (int d : order) {
    sorted.shape.push_back(loops.shape[d]);
    for (int v = 0; v < N; ++v) sorted.strides[v].push_back(loops.strides[v][d]);
  }
  return sorted;
}

// The loops in the memory order of view `lead`, merged: its densest dimension is the innermost.
template <int N>
Loops<N> collapse(const Loops<N>& loops, int lead) {
  return merge(reorder(loops, memory_order(loops.shape, loops.strides[lead])));
}

template <int N>
Loops<N> loops_of(const std::array<const View*, N>& views) {
  Loops<N> loops;
  loops.shape = views[0]->shape;
  for (int v = 0; v < N; ++v) loops.strides[v] = views[v]->strides;
  return loops;
}

// A position in the rows (all dimensions but the innermost), as an offset for every view.
template <int N>
class RowCursor {
 public:
  RowCursor(const Loops<N>& loops, Index row) : loops_(loops), at_(loops.shape.size(), Index{0}) {
    for (int d = loops.shape.size() - 2; d >= 0; --d) {
      at_[d] = row % loops.shape[d];
      row /= loops.shape[d];
      for (int v = 0; v < N; ++v) offset_[v] += at_[d] * loops.strides[v][d];
    }
  }
  const std::array<Index, N>& offsets() const { return offset_; }
  Index operator[](int view) const { return offset_[view]; }
  void next() {
    for (int d = loops_.shape.size() - 2; d >= 0; --d) {
      for (int v = 0; v < N; ++v) offset_[v] += loops_.strides[v][d];
      if (++at_[d] < loops_.shape[d]) return;
      for (int v = 0; v < N; ++v) offset_[v] -= at_[d] * loops_.strides[v][d];
      at_[d] = 0;
    }
  }

 private:
  const Loops<N>& loops_;
  Shape at_;
  std::array<Index, N> offset_{};
};

// body(offsets, n, position): n elements of the innermost dimension from these offsets on;
// `position` is the number of the first one in the order of the loops. `cost`: operations for
// one element.
template <int N, class Body>
void for_each_row(const Loops<N>& loops, double cost, const Body& body) {
  const Index rows = loops.rows(), n = loops.inner();
  if (rows == 0 || n == 0) return;
  const double work = cost * static_cast<double>(rows * n);
  if (n >= block_size) {
    const Index pieces = pieces_of(n, block_size);
    parallel_for(rows * pieces, work, [&](Index unit) {
      const Index row = unit / pieces, start = unit % pieces * block_size;
      std::array<Index, N> offsets = RowCursor<N>(loops, row).offsets();
      for (int v = 0; v < N; ++v) offsets[v] += start * loops.inner_stride(v);
      body(offsets, std::min(block_size, n - start), row * n + start);
    });
    return;
  }
  const Index group = block_size / n;
  parallel_for(pieces_of(rows, group), work, [&](Index unit) {
    const Index first = unit * group, last = std::min(rows, first + group);
    RowCursor<N> cursor(loops, first);
    for (Index row = first; row < last; ++row, cursor.next()) body(cursor.offsets(), n, row * n);
  });
}

// The loops without dimension `axis`, outermost first in the given order: for kernels that take
// whole rows along an axis. The innermost dimension they get is of size 1.
template <int N>
Loops<N> rows_along(const std::array<const View*, N>& views, int axis) {
  Loops<N> loops = loops_of<N>(views);
  loops.shape.erase(axis);
  for (Strides& s : loops.strides) s.erase(axis);
  loops = collapse(loops, 0);
  loops.shape.push_back(1);
  for (Strides& s : loops.strides) s.push_back(0);
  return loops;
}

// Joins the results of blocks in a balanced tree; the first becomes that of all.
template <class Join>
void join_blocks(Index blocks, const Join& join) {
  for (Index step = 1; step < blocks; step *= 2)
    for (Index b = 0; b + step < blocks; b += 2 * step) join(b, b + step);
}

// body(cursor) for every row, in blocks of about block_size elements.
template <int N, class Body>
void for_each_row_along(const Loops<N>& loops, Index row_length, double cost, const Body& body) {
  const Index rows = loops.rows();
  if (rows == 0) return;
  const Index group = std::max<Index>(1, block_size / std::max<Index>(1, row_length));
  parallel_for(pieces_of(rows, group), cost * static_cast<double>(rows * row_length),
               [&](Index unit) {
                 const Index first = unit * group, last = std::min(rows, first + group);
                 RowCursor<N> cursor(loops, first);
                 for (Index row = first; row < last; ++row, cursor.next()) body(cursor);
               });
}

}  // namespace tete::cpu_kernels
