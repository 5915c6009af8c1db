// Layer norm and RMS norm over the last dimension.
#include <vector>

#include "core/cpu/relaid.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {
namespace {

// Rows whose parameter gradients are added one after the other; blocks of rows form a tree.
constexpr Index rows_in_block = 64;

// Norms of rows, each of which row(cursor) returns. `views` are y, stats and those that row reads.
template <int N, class Row>
void norm_rows(const std::array<const View*, N>& views, const View& scale, const View& bias,
               bool center, double epsilon, const Row& row) {
  const View &y = *views[0], &stats = *views[1];
  const int last = y.rank() - 1;
  const Index n = y.shape[last];
  Relaid scales = rowwise(scale, 0), biases = rowwise(bias, 0);
  const View &s = scales.source(), &b = biases.source();
  visit(y.dtype, [&]<class T>() {
    for_each_row_along(rows_along<N>(views, last), n, 6, [&](const RowCursor<N>& at) {
      T pair[2];
      rows<T>().norm(row.template operator()<T>(at), s.as<T>(), b.data ? b.as<T>() : nullptr,
                     center, static_cast<T>(epsilon), y.as<T>() + at[0], pair, n);
      stats.as<T>()[at[1]] = pair[0];
      stats.as<T>()[at[1] + stats.strides[last]] = pair[1];
    });
  });
}

}  // namespace

bool CpuBackend::norm(const View& x, const View& scale, const View& bias, bool center,
                      double epsilon, const View& y, const View& stats) {
  Relaid from = rowwise(x, x.rank() - 1), to = rowwise(y, y.rank() - 1);
  const View& vx = from.source();
  norm_rows<3>({&to.target(), &stats, &vx}, scale, bias, center, epsilon,
               [&]<class T>(const RowCursor<3>& at) { return vx.as<T>() + at[2]; });
  to.finish();
  return true;
}

bool CpuBackend::add_norm(const View& x, const View& r, const View& scale, const View& bias,
                          bool center, double epsilon, const View& s, const View& y,
                          const View& stats) {
  const int last = x.rank() - 1;
  Relaid sum = rowwise(s, last), to = rowwise(y, last);
  const View& vs = sum.target();
  norm_rows<5>({&to.target(), &stats, &vs, &x, &r}, scale, bias, center, epsilon,
               [&]<class T>(const RowCursor<5>& at) {
                 T* const row = vs.as<T>() + at[2];
                 rows<T>().binary[static_cast<int>(Binary::add)](x.as<T>() + at[3], x.strides[last],
                                                                 r.as<T>() + at[4], r.strides[last],
                                                                 row, 1, x.shape[last]);
                 return row;
               });
  sum.finish(), to.finish();
  return true;
}

bool CpuBackend::norm_gradient(const View& x, const View& scale, const View& g, const View& stats,
                               bool center, const View& dx, const View& dscale, const View& dbias) {
  const int last = x.rank() - 1;
  const Index n = x.shape[last];
  Relaid from = rowwise(x, last), upstream = rowwise(g, last), to = rowwise(dx, last),
         weights = rowwise(scale, 0);
  const View &vx = from.source(), &vg = upstream.source(), &vdx = to.target(),
             &vs = weights.source();
  const auto loops = rows_along<4>({&vdx, &vx, &vg, &stats}, last);
  const Index count = loops.rows(), blocks = pieces_of(count, rows_in_block);
  visit(x.dtype, [&]<class T>() {
    // dscale of each block, then dbias of each block; at least one block of zeros.
    const Index used = std::max<Index>(1, blocks);
    std::vector<T> totals(static_cast<size_t>(2 * used * n), T(0));
    T* const scales = totals.data();
    T* const biases = scales + used * n;
    parallel_for(blocks, 10.0 * static_cast<double>(count * n), [&](Index block) {
      const Index first = block * rows_in_block, end = std::min(count, first + rows_in_block);
      RowCursor<4> at(loops, first);
      for (Index row = first; row < end; ++row, at.next()) {
        const T pair[2] = {stats.as<T>()[at[3]], stats.as<T>()[at[3] + stats.strides[last]]};
        rows<T>().norm_gradient(vx.as<T>() + at[1], vs.as<T>(), vg.as<T>() + at[2], pair, center,
                                vdx.as<T>() + at[0], scales + block * n,
                                dbias.data ? biases + block * n : nullptr, n);
      }
    });
    for (const auto& [total, sum] : {std::pair(scales, &dscale), {biases, &dbias}}) {
      if (!sum->data) continue;
      join_blocks(used, [&, total = total](Index a, Index b) {
        rows<T>().sum_across(total + b * n, 0, 1, 1, n, total + a * n);
      });
      copy({sum->dtype, {n}, {1}, total}, *sum);
    }
  });
  to.finish();
  return true;
}

}  // namespace tete::cpu_kernels
