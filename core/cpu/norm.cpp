// Layer norm and RMS norm over the last dimension.
#include <vector>

#include "core/cpu/backend.hpp"
#include "core/cpu/line.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {
namespace {

// Rows whose parameter gradients are added one after the other; blocks of rows form a tree.
constexpr Index rows_in_block = 64;

// A vector of n parameters with stride 1.
template <class T>
const T* parameter(Line<T>& line, const View& v, Index n) {
  return v.data ? line.source(v.as<T>(), v.strides[0], n) : nullptr;
}

// total_0 += total_1 + … + total_{count-1}, as a tree; each has n numbers.
template <class T>
void add_blocks(T* total, Index count, Index n) {
  for (Index step = 1; step < count; step *= 2)
    for (Index b = 0; b + step < count; b += 2 * step)
      rows<T>().sum_across(total + (b + step) * n, 0, 1, 1, n, total + b * n);
}

template <class T>
void write_vector(const T* from, const View& y, Index n) {
  for (Index i = 0; i < n; ++i) y.as<T>()[i * y.strides[0]] = from[i];
}

// Norms of rows. `views` are y, stats and the views that row(cursor, line) reads to return a row of
// x.
template <int N, class Row>
void norm_rows(const std::array<const View*, N>& views, const View& scale, const View& bias,
               bool center, double epsilon, const Row& row) {
  const View &y = *views[0], &stats = *views[1];
  const int last = y.rank() - 1;
  const Index n = y.shape[last];
  const auto loops = rows_along<N>(views, last);
  visit(y.dtype, [&]<class T>() {
    Line<T> scale_line, bias_line;
    const T* const s = parameter(scale_line, scale, n);
    const T* const b = parameter(bias_line, bias, n);
    struct Buffers {
      Line<T> x, y;
    };
    for_each_block(
        loops, n, 6, [&] { return Buffers(); },
        [&](const RowCursor<N>& at, Buffers& line) {
          T* const to = line.y.target(y.as<T>() + at[0], y.strides[last], n);
          T pair[2];
          rows<T>().norm(row(at, line.x), s, b, center, static_cast<T>(epsilon), to, pair, n);
          line.y.finish(y.as<T>() + at[0], y.strides[last], n);
          stats.as<T>()[at[1]] = pair[0];
          stats.as<T>()[at[1] + stats.strides[last]] = pair[1];
        });
  });
}

}  // namespace

bool CpuBackend::norm(const View& x, const View& scale, const View& bias, bool center,
                      double epsilon, const View& y, const View& stats) {
  const int last = x.rank() - 1;
  const Index stride = x.strides[last], n = x.shape[last];
  norm_rows<3>({&y, &stats, &x}, scale, bias, center, epsilon,
               [&]<class T>(const RowCursor<3>& at, Line<T>& line) {
                 return line.source(x.as<T>() + at[2], stride, n);
               });
  return true;
}

bool CpuBackend::add_norm(const View& x, const View& r, const View& scale, const View& bias,
                          bool center, double epsilon, const View& s, const View& y,
                          const View& stats) {
  const int last = x.rank() - 1;
  const Index stride = s.strides[last], n = x.shape[last];
  norm_rows<5>({&y, &stats, &s, &x, &r}, scale, bias, center, epsilon,
               [&]<class T>(const RowCursor<5>& at, Line<T>& line) -> const T* {
                 T* const sum = line.target(s.as<T>() + at[2], stride, n);
                 rows<T>().binary[static_cast<int>(Binary::add)](x.as<T>() + at[3], x.strides[last],
                                                                 r.as<T>() + at[4], r.strides[last],
                                                                 sum, 1, n);
                 line.finish(s.as<T>() + at[2], stride, n);
                 return sum;
               });
  return true;
}

bool CpuBackend::norm_gradient(const View& x, const View& scale, const View& g, const View& stats,
                               bool center, const View& dx, const View& dscale, const View& dbias) {
  const int last = x.rank() - 1;
  const Index n = x.shape[last];
  const auto loops = rows_along<4>({&dx, &x, &g, &stats}, last);
  const Index count = loops.rows(), blocks = (count + rows_in_block - 1) / rows_in_block;
  visit(x.dtype, [&]<class T>() {
    Line<T> scale_line;
    const T* const s = parameter(scale_line, scale, n);
    // dscale of each block, then dbias of each block; at least one block of zeros.
    const Index used = std::max<Index>(1, blocks);
    std::vector<T> totals(static_cast<size_t>(2 * used * n), T(0));
    T* const scales = totals.data();
    T* const biases = scales + used * n;
    parallel_for(blocks, 10.0 * static_cast<double>(count * n), [&](Index block) {
      Line<T> x_line, g_line, dx_line;
      const Index first = block * rows_in_block, end = std::min(count, first + rows_in_block);
      RowCursor<4> at(loops, first);
      for (Index row = first; row < end; ++row, at.next()) {
        const T pair[2] = {stats.as<T>()[at[3]], stats.as<T>()[at[3] + stats.strides[last]]};
        T* const to = dx_line.target(dx.as<T>() + at[0], dx.strides[last], n);
        rows<T>().norm_gradient(x_line.source(x.as<T>() + at[1], x.strides[last], n), s,
                                g_line.source(g.as<T>() + at[2], g.strides[last], n), pair, center,
                                to, scales + block * n, dbias.data ? biases + block * n : nullptr,
                                n);
        dx_line.finish(dx.as<T>() + at[0], dx.strides[last], n);
      }
    });
    add_blocks(scales, used, n);
    write_vector(scales, dscale, n);
    if (!dbias.data) return;
    add_blocks(biases, used, n);
    write_vector(biases, dbias, n);
  });
  return true;
}

}  // namespace tete::cpu_kernels
