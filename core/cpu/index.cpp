// Gather: rows of a table, read at the positions that a tensor of indices holds; and scatter,
// its transpose.
//
// Dimensions are of two kinds: positions (those of the indices) and slices (those that only the
// table has). Gather runs over positions in parallel. Scatter adds to one place from many
// positions, in order; it runs over slices in parallel.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/cpu/backend.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {
namespace {

// The dimensions of a gathered value Y (or of its gradient), table T and indices I.
struct Parts {
  Loops<3> positions;  // Y, T, I; ends with a dimension of size 1
  Loops<2> slices;     // Y, T
  Index step;          // in T, from one index to the next
};

Index stride_of(const View& v, const Labels& labels, Label label) {
  Index stride = 0;  // a label that appears twice reads the diagonal
  for (int d = 0; d < labels.size(); ++d)
    if (labels[d] == label) stride += v.strides[d];
  return stride;
}

Parts parts_of(const View& Y, const Labels& y, const View& T, const Labels& t, const View& I,
               const Labels& i, Label label) {
  Parts parts;
  Loops<2> slices;
  for (int d = 0; d < y.size(); ++d) {
    const bool position = i.contains(y[d]);
    const Index table = stride_of(T, t, y[d]);
    (position ? parts.positions.shape : slices.shape).push_back(Y.shape[d]);
    (position ? parts.positions.strides[0] : slices.strides[0]).push_back(Y.strides[d]);
    (position ? parts.positions.strides[1] : slices.strides[1]).push_back(table);
    if (position) parts.positions.strides[2].push_back(stride_of(I, i, y[d]));
  }
  parts.positions.shape.push_back(1);
  for (Strides& s : parts.positions.strides) s.push_back(0);
  parts.slices = collapse(slices, 0);
  parts.step = stride_of(T, t, label);
  return parts;
}

template <class E>
void copy_slice(const E* from, E* to, const Loops<2>& loops) {
  const Index n = loops.inner(), sy = loops.inner_stride(0), st = loops.inner_stride(1);
  RowCursor<2> at(loops, 0);
  for (Index row = loops.rows(); row > 0; --row, at.next())
    for (Index i = 0; i < n; ++i) to[at[0] + i * sy] = from[at[1] + i * st];
}

// Gather copies numbers without arithmetic, so one element type for each size is enough.
template <class F>
void visit_size(Dtype t, const F& body) {
  if (size_of(t) == 2) return body.template operator()<uint16_t>();
  if (size_of(t) == 4) return body.template operator()<uint32_t>();
  body.template operator()<uint64_t>();
}

// Adds elements first … first+count-1 of the slices' innermost dimension, at every position.
template <class E>
void add_slices(const Parts& parts, const E* g, const int64_t* index, E* table, Index first,
                Index count) {
  const Index sg = parts.slices.inner_stride(0), st = parts.slices.inner_stride(1);
  RowCursor<3> at(parts.positions, 0);
  for (Index p = parts.positions.rows(); p > 0; --p, at.next()) {
    RowCursor<2> slice(parts.slices, 0);
    const E* const from = g + at[0] + first * sg;
    E* const to = table + at[1] + index[at[2]] * parts.step + first * st;
    for (Index row = parts.slices.rows(); row > 0; --row, slice.next()) {
      const E* const x = from + slice[0];
      E* const y = to + slice[1];
      if (sg == 1 && st == 1) rows<E>().sum_across(x, 0, 1, 1, count, y);
      else
        for (Index i = 0; i < count; ++i) y[i * st] += x[i * sg];
    }
  }
}

// Finds the positions of the `count` largest of x[0], x[sx], …, x[(size - 1)·sx].
template <class T>
void find_largest(const T* x, Index size, Index sx, int64_t* found, Index count, Index sf) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int64_t a, int64_t b) {
    const T first = x[a * sx], second = x[b * sx];
    if (std::isnan(first) || std::isnan(second))
      return std::isnan(first) && (!std::isnan(second) || a < b);
    return first > second || (first == second && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), before);
  for (Index i = 0; i < count; ++i) found[i * sf] = order[static_cast<size_t>(i)];
}

}  // namespace

void CpuBackend::gather(const View& T, const Labels& t, const View& I, const Labels& i, Label label,
                        const View& Y, const Labels& y) {
  const Parts parts = parts_of(Y, y, T, t, I, i, label);
  const Index size = parts.slices.size();
  if (size == 0) return;
  visit_size(Y.dtype, [&]<class E>() {
    const E* const table = static_cast<const E*>(T.data);
    E* const to = static_cast<E*>(Y.data);
    const int64_t* const index = I.as<int64_t>();
    for_each_row_along(parts.positions, size, 2, [&](const RowCursor<3>& at) {
      copy_slice(table + at[1] + index[at[2]] * parts.step, to + at[0], parts.slices);
    });
  });
}

void CpuBackend::scatter(const View& G, const Labels& g, const View& I, const Labels& i,
                         Label label, const View& T, const Labels& t) {
  fill(0, T);
  const Parts parts = parts_of(G, g, T, t, I, i, label);
  if (parts.slices.size() == 0 || parts.positions.rows() == 0) return;
  // Pieces are as long as threads allow, since rows of a table are far apart and each piece meets
  // them all.
  constexpr Index line = 64;
  const Index n = parts.slices.inner(), threads = threads_here(), lines = pieces_of(n, line),
              columns = std::max<Index>(1, pieces_of(lines, threads)) * line;
  visit(G.dtype, [&]<class E>() {
    parallel_for(pieces_of(n, columns), static_cast<double>(G.size()), [&](Index unit) {
      const Index first = unit * columns;
      add_slices(parts, G.as<E>(), I.as<int64_t>(), T.as<E>(), first, std::min(columns, n - first));
    });
  });
}

void CpuBackend::check_inside(const View& I, Index size, Refuse refuse) {
  const auto loops = merge(loops_of<1>({&I}));  // in row-major order
  const Index n = loops.inner(), stride = loops.inner_stride(0);
  for (Index row = 0; row < loops.rows() && n > 0; ++row) {
    const int64_t* const at = I.as<int64_t>() + RowCursor<1>(loops, row)[0];
    for (Index i = 0; i < n; ++i)
      if (at[i * stride] < 0 || at[i * stride] >= size) refuse(row * n + i);
  }
}

bool CpuBackend::top_k(const View& x, int axis, const View& found) {
  if (found.size() == 0) return true;
  const Index count = found.shape[axis], sx = x.strides[axis], sf = found.strides[axis];
  const auto loops = rows_along<2>({&found, &x}, axis);
  visit(x.dtype, [&]<class T>() {
    for_each_row_along(loops, x.shape[axis], 8, [&](const RowCursor<2>& at) {
      find_largest(x.as<T>() + at[1], x.shape[axis], sx, found.as<int64_t>() + at[0], count, sf);
    });
  });
  return true;
}

}  // namespace tete::cpu_kernels
