// Cross-entropy of rows of logits, and its gradient.
#include "core/cpu/relaid.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {
namespace {

// The loop over tokens, the first dimension of each view.
template <class... Views>
auto tokens_of(const View& logits, const Views&... others) {
  return Loops<1 + sizeof...(others)>{
      {logits.shape[0], 1}, {Strides{logits.strides[0], 0}, Strides{others.strides[0], 0}...}};
}

}  // namespace

bool CpuBackend::cross_entropy(const View& logits, const View& targets, const View& loss,
                               const View& lse) {
  Relaid from = rowwise(logits, 1);
  const View& x = from.source();
  const Index n = x.shape[1];
  visit(x.dtype, [&]<class T>() {
    const auto loops = tokens_of(x, targets, loss, lse);
    for_each_row_along(loops, n, 10, [&](const RowCursor<4>& at) {
      const T* const row = x.as<T>() + at[0];
      const T total = rows<T>().logsumexp(row, n);
      lse.as<T>()[at[3]] = total;
      loss.as<T>()[at[2]] = total - row[targets.as<int64_t>()[at[1]]];
    });
  });
  return true;
}

bool CpuBackend::cross_entropy_gradient(const View& logits, const View& targets, const View& lse,
                                        const View& g, const View& dlogits) {
  Relaid from = rowwise(logits, 1), to = rowwise(dlogits, 1);
  const View &x = from.source(), &dx = to.target();
  const Index n = x.shape[1];
  visit(x.dtype, [&]<class T>() {
    const auto loops = tokens_of(x, targets, lse, g, dx);
    for_each_row_along(loops, n, 10, [&](const RowCursor<5>& at) {
      rows<T>().cross_entropy_gradient(x.as<T>() + at[0], lse.as<T>()[at[2]], g.as<T>()[at[3]],
                                       targets.as<int64_t>()[at[1]], dx.as<T>() + at[4], n);
    });
  });
  to.finish();
  return true;
}

}  // namespace tete::cpu_kernels
