// Elementwise operations: views are walked in the output's memory order, rows do the rest.
#include "core/cpu/backend.hpp"
#include "core/cpu/line.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {
namespace {

// Operations for one element, roughly. They decide if a loop is shared among threads.
constexpr double cheap = 1, function = 8;

}  // namespace

void CpuBackend::unary(Unary op, const View& x, const View& y) {
  visit(y.dtype, [&]<class T>() {
    const auto row = rows<T>().unary[static_cast<int>(op)];
    const auto loops = collapse(loops_of<2>({&y, &x}), 0);
    const Index sy = loops.inner_stride(0), sx = loops.inner_stride(1);
    for_each_row(loops, function, [=, to = y.as<T>(), from = x.as<T>()](auto& at, Index n, Index) {
      row(from + at[1], sx, to + at[0], sy, n);
    });
  });
}

void CpuBackend::unary_gradient(Unary op, const View& x, const View& y, const View& g,
                                const View& dx) {
  visit(dx.dtype, [&]<class T>() {
    const auto row = rows<T>().unary_gradient[static_cast<int>(op)];
    const auto loops = collapse(loops_of<4>({&dx, &x, &y, &g}), 0);
    for_each_row(loops, function, [&](auto& at, Index n, Index) {
      row(x.as<T>() + at[1], loops.inner_stride(1), y.as<T>() + at[2], loops.inner_stride(2),
          g.as<T>() + at[3], loops.inner_stride(3), dx.as<T>() + at[0], loops.inner_stride(0), n);
    });
  });
}

void CpuBackend::binary(Binary op, const View& a, const View& b, const View& y) {
  visit(y.dtype, [&]<class T>() {
    const auto row = rows<T>().binary[static_cast<int>(op)];
    const auto loops = collapse(loops_of<3>({&y, &a, &b}), 0);
    for_each_row(loops, cheap, [&](auto& at, Index n, Index) {
      row(a.as<T>() + at[1], loops.inner_stride(1), b.as<T>() + at[2], loops.inner_stride(2),
          y.as<T>() + at[0], loops.inner_stride(0), n);
    });
  });
}

void CpuBackend::select(const View& c, const View& a, const View& b, const View& y) {
  visit(y.dtype, [&]<class T>() {
    const auto row = rows<T>().select;
    const auto loops = collapse(loops_of<4>({&y, &c, &a, &b}), 0);
    for_each_row(loops, cheap, [&](auto& at, Index n, Index) {
      row(c.as<T>() + at[1], loops.inner_stride(1), a.as<T>() + at[2], loops.inner_stride(2),
          b.as<T>() + at[3], loops.inner_stride(3), y.as<T>() + at[0], loops.inner_stride(0), n);
    });
  });
}

bool CpuBackend::unary_of_sum(Unary op, const View& a, const View& b, const View& y) {
  visit(y.dtype, [&]<class T>() {
    const auto row = rows<T>().unary_of_sum[static_cast<int>(op)];
    const auto loops = collapse(loops_of<3>({&y, &a, &b}), 0);
    const Index sy = loops.inner_stride(0);
    for_each_row(loops, function, [&](auto& at, Index n, Index) {
      Line<T> a_line, b_line, y_line;
      row(a_line.source(a.as<T>() + at[1], loops.inner_stride(1), n),
          b_line.source(b.as<T>() + at[2], loops.inner_stride(2), n),
          y_line.target(y.as<T>() + at[0], sy, n), n);
      y_line.finish(y.as<T>() + at[0], sy, n);
    });
  });
  return true;
}

bool CpuBackend::unary_of_sum_gradient(Unary op, const View& a, const View& b, const View& y,
                                       const View& g, const View& dsum) {
  visit(dsum.dtype, [&]<class T>() {
    const auto row = rows<T>().unary_of_sum_gradient[static_cast<int>(op)];
    const auto loops = collapse(loops_of<5>({&dsum, &a, &b, &y, &g}), 0);
    const Index sd = loops.inner_stride(0);
    for_each_row(loops, function, [&](auto& at, Index n, Index) {
      Line<T> a_line, b_line, y_line, g_line, dsum_line;
      row(a_line.source(a.as<T>() + at[1], loops.inner_stride(1), n),
          b_line.source(b.as<T>() + at[2], loops.inner_stride(2), n),
          y_line.source(y.as<T>() + at[3], loops.inner_stride(3), n),
          g_line.source(g.as<T>() + at[4], loops.inner_stride(4), n),
          dsum_line.target(dsum.as<T>() + at[0], sd, n), n);
      dsum_line.finish(dsum.as<T>() + at[0], sd, n);
    });
  });
  return true;
}

bool CpuBackend::accumulate(const View& x, const View& y) {
  visit(y.dtype, [&]<class T>() {
    const auto loops = collapse(loops_of<2>({&y, &x}), 0);
    const Index sy = loops.inner_stride(0), sx = loops.inner_stride(1);
    for_each_row(loops, cheap, [=, to = y.as<T>(), from = x.as<T>()](auto& at, Index n, Index) {
      T* const out = to + at[0];
      const T* const in = from + at[1];
      if (sy == 1 && sx == 1)
        for (Index i = 0; i < n; ++i) out[i] += in[i];
      else
        for (Index i = 0; i < n; ++i) out[i * sy] += in[i * sx];
    });
  });
  return true;
}

}  // namespace tete::cpu_kernels
