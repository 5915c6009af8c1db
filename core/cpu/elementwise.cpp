// Elementwise operations: views are walked in the output's memory order, rows do the rest.
#include <tuple>
#include <utility>

#include "core/cpu/backend.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {
namespace {

// Operations for one element, roughly. They decide if a loop is shared among threads.
constexpr double cheap = 1, function = 8;

// row(x, its stride, …, y, its stride, n) for the rows of all these views.
template <class T, class Row, class... Views>
void by_rows(Row* row, double cost, const View& y, const Views&... x) {
  const std::array<const View*, 1 + sizeof...(x)> views{&y, &x...};
  const auto loops = collapse(loops_of<1 + sizeof...(x)>(views), 0);
  for_each_row(loops, cost, [&](auto& at, Index n, Index) {
    const auto place = [&](size_t v) {
      const int view = static_cast<int>(v);
      return std::pair(views[v]->template as<T>() + at[v], loops.inner_stride(view));
    };
    [&]<size_t... v>(std::index_sequence<v...>) {
      std::apply(row, std::tuple_cat(place(v + 1)..., place(0), std::tuple(n)));
    }
    (std::index_sequence_for<Views...>());
  });
}

}  // namespace

void CpuBackend::unary(Unary op, const View& x, const View& y) {
  visit(y.dtype,
        [&]<class T>() { by_rows<T>(rows<T>().unary[static_cast<int>(op)], function, y, x); });
}

void CpuBackend::unary_gradient(Unary op, const View& x, const View& y, const View& g,
                                const View& dx) {
  visit(dx.dtype, [&]<class T>() {
    by_rows<T>(rows<T>().unary_gradient[static_cast<int>(op)], function, dx, x, y, g);
  });
}

void CpuBackend::binary(Binary op, const View& a, const View& b, const View& y) {
  visit(y.dtype,
        [&]<class T>() { by_rows<T>(rows<T>().binary[static_cast<int>(op)], cheap, y, a, b); });
}

void CpuBackend::select(const View& c, const View& a, const View& b, const View& y) {
  visit(y.dtype, [&]<class T>() { by_rows<T>(rows<T>().select, cheap, y, c, a, b); });
}

bool CpuBackend::unary_of_sum(Unary op, const View& a, const View& b, const View& y) {
  visit(y.dtype, [&]<class T>() {
    by_rows<T>(rows<T>().unary_of_sum[static_cast<int>(op)], function, y, a, b);
  });
  return true;
}

bool CpuBackend::unary_of_sum_gradient(Unary op, const View& a, const View& b, const View& y,
                                       const View& g, const View& dsum) {
  visit(dsum.dtype, [&]<class T>() {
    by_rows<T>(rows<T>().unary_of_sum_gradient[static_cast<int>(op)], function, dsum, a, b, y, g);
  });
  return true;
}

bool CpuBackend::turn(const View& a, const View& b, const View& cosine, const View& sine,
                      const View& ya, const View& yb) {
  visit(ya.dtype,
        [&]<class T>() { by_rows<T>(rows<T>().turn, 4 * cheap, ya, a, b, cosine, sine, yb); });
  return true;
}

bool CpuBackend::accumulate(const View& x, const View& y) {
  visit(y.dtype, [&]<class T>() {
    const auto loops = collapse(loops_of<2>({&y, &x}), 0);
    const Index sy = loops.inner_stride(0), sx = loops.inner_stride(1);
    for_each_row(loops, cheap, [&](auto& at, Index n, Index) {
      T* const to = y.as<T>() + at[0];
      const T* const from = x.as<T>() + at[1];
      if (sy == 1) return rows<T>().sum_across(from, 0, sx, 1, n, to);
      for (Index i = 0; i < n; ++i) to[i * sy] += from[i * sx];
    });
  });
  return true;
}

}  // namespace tete::cpu_kernels
