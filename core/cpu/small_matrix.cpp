// Contractions in which small matrices meet long rows, where BLAS is weak.
//
//   mixing:   L[b, h', x] = Σ_h J[b, h, x] P[h, h']           heads are mixed
//   pairing:  P[h, h']    = Σ_{b, x} J[b, h, x] G[b, h', x]   its gradient
//   lanes:    L[n, h', x] = Σ_h J[n, h, x] R[h, h', x]        each key mixes heads in its own way
//
// x is long and has stride 1; in mixing and pairing, h and h' are at most 32. Mixing is a product
// of matrices (matrices.cpp).
#include "core/cpu/small_matrix.hpp"

#include <algorithm>

namespace tete::cpu_kernels {
namespace {

constexpr Index row_piece = 8192;  // elements of a row that one block takes

// The last dimension of a long row's size that has stride 1 in both operands, or -1.
int side_by_side(const Dims& dims, Operand one, Operand other) {
  int found = -1;
  for (int d = 0; d < dims.size(); ++d)
    if (dims[d].stride[one] == 1 && dims[d].stride[other] == 1 && dims[d].size >= long_row)
      found = d;
  return found;
}

// The first dimension of a batch that is as long and has stride 1 in all of A, B and Y, or -1.
int lanes_of(const Dims& batch) {
  for (int d = 0; d < batch.size(); ++d)
    if (batch[d].stride == std::array<Index, 3>{1, 1, 1} && batch[d].size >= long_row) return d;
  return -1;
}

bool is_small(const Dims& dims) { return dims.size() == 1 && dims[0].size <= small_side; }

}  // namespace

bool is_mix(const Groups& groups) {
  return is_small(groups.k) && ((is_small(groups.n) && side_by_side(groups.m, in_a, in_y) >= 0) ||
                                (is_small(groups.m) && side_by_side(groups.n, in_b, in_y) >= 0));
}
bool is_pair(const Groups& groups) {
  return side_by_side(groups.k, in_a, in_b) >= 0 && is_small(groups.m) && is_small(groups.n);
}

bool is_lane_product(const Groups& groups) {
  return lanes_of(groups.batch) >= 0 && groups.m.size() == 1 && groups.n.size() == 1 &&
         groups.k.size() == 1;
}

template <class T>
void lane_product(const Groups& groups, const T* A, const T* B, T* Y) {
  const int at = lanes_of(groups.batch);
  const Index places = groups.batch[at].size, pieces = pieces_of(places, long_row);
  const Dim m = groups.m[0], n = groups.n[0], k = groups.k[0];
  Dims outer = groups.batch;
  outer.erase(at);
  const Loops<3> loops = loops_over(outer);
  const double work = static_cast<double>(loops.rows() * places * m.size * n.size * k.size);
  parallel_for(loops.rows() * pieces, work, [&](Index unit) {
    const RowCursor<3> row(loops, unit / pieces);
    const Index start = unit % pieces * long_row;
    rows<T>().lane_product({A + row[in_a] + start, m.stride[in_a], k.stride[in_a],
                            B + row[in_b] + start, k.stride[in_b], n.stride[in_b],
                            Y + row[in_y] + start, m.stride[in_y], n.stride[in_y], m.size, n.size,
                            k.size, std::min(long_row, places - start)});
  });
}

template <class T>
void pair(const Groups& groups, const T* A, const T* B, T* Y) {
  const int at = side_by_side(groups.k, in_a, in_b);
  const Index length = groups.k[at].size, pieces = pieces_of(length, row_piece);
  const Dim m = groups.m[0], n = groups.n[0];
  Dims outer = groups.k;
  outer.erase(at);
  const Loops<3> outputs = loops_over(groups.batch), sums = loops_over(outer);
  const Index blocks = sums.rows() * pieces;
  std::vector<PairSum<T>> totals(static_cast<size_t>(outputs.rows()), {m.size, n.size, blocks});
  const double work = static_cast<double>(outputs.rows() * sums.rows() * length * m.size * n.size);
  parallel_for(outputs.rows() * blocks, work, [&](Index unit) {
    const RowCursor<3> output(outputs, unit / blocks), sum(sums, unit % blocks / pieces);
    const Index start = unit % pieces * row_piece;
    typename PairSum<T>::Block block(totals[unit / blocks], unit % blocks);
    block.add(A + output[in_a] + sum[in_a] + start, m.stride[in_a],
              B + output[in_b] + sum[in_b] + start, n.stride[in_b],
              std::min(row_piece, length - start));
  });
  RowCursor<3> output(outputs, 0);
  for (PairSum<T>& total : totals) {
    total.finish(Y + output[in_y], m.stride[in_y], n.stride[in_y]);
    output.next();
  }
}

template <class T>
PairSum<T>::Block::Block(PairSum& sum, Index number)
    : sum_(sum),
      number_(number),
      lanes_(static_cast<size_t>(sum.rows_ * sum.columns_ * cpu_kernels::rows<T>().outer_lanes) *
             sizeof(T)) {
  std::fill_n(lanes_.as<T>(), sum.rows_ * sum.columns_ * cpu_kernels::rows<T>().outer_lanes, T(0));
}
template <class T>
PairSum<T>::Block::~Block() {
  const Index size = sum_.rows_ * sum_.columns_;
  cpu_kernels::rows<T>().add_lanes(lanes_.as<T>(), size, sum_.totals_.data() + number_ * size);
}

template <class T>
void PairSum<T>::finish(T* P, Index row, Index column) {
  const Index size = rows_ * columns_;
  double* const total = totals_.data();
  join_blocks(blocks_, [&](Index a, Index b) {
    for (Index i = 0; i < size; ++i) total[a * size + i] += total[b * size + i];
  });
  for (Index i = 0; i < size; ++i)
    P[i / columns_ * row + i % columns_ * column] = static_cast<T>(total[i]);
}

template class PairSum<float>;
template class PairSum<double>;
template void lane_product(const Groups&, const float*, const float*, float*);
template void lane_product(const Groups&, const double*, const double*, double*);
template void pair(const Groups&, const float*, const float*, float*);
template void pair(const Groups&, const double*, const double*, double*);

}  // namespace tete::cpu_kernels
