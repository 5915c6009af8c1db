// Cross-entropy of rows of logits, and its gradient.
#include "core/cpu/backend.hpp"
#include "core/cpu/line.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {

bool CpuBackend::cross_entropy(const View& logits, const View& targets, const View& loss,
                               const View& lse) {
  const Index n = logits.shape[1], stride = logits.strides[1];
  const Index count = logits.shape[0],
              group = std::max<Index>(1, block_size / std::max<Index>(1, n));
  visit(logits.dtype, [&]<class T>() {
    parallel_for((count + group - 1) / group, 10.0 * static_cast<double>(count * n), [&](Index u) {
      Line<T> line;
      for (Index t = u * group; t < std::min(count, (u + 1) * group); ++t) {
        const T* const row = logits.as<T>() + t * logits.strides[0];
        const T total = rows<T>().logsumexp(line.source(row, stride, n), n);
        const Index target = targets.as<int64_t>()[t * targets.strides[0]];
        lse.as<T>()[t * lse.strides[0]] = total;
        loss.as<T>()[t * loss.strides[0]] = total - row[target * stride];
      }
    });
  });
  return true;
}

bool CpuBackend::cross_entropy_gradient(const View& logits, const View& targets, const View& lse,
                                        const View& g, const View& dlogits) {
  const Index count = logits.shape[0], n = logits.shape[1];
  const Index group = std::max<Index>(1, block_size / std::max<Index>(1, n));
  visit(logits.dtype, [&]<class T>() {
    parallel_for((count + group - 1) / group, 10.0 * static_cast<double>(count * n), [&](Index u) {
      Line<T> from, to;
      for (Index t = u * group; t < std::min(count, (u + 1) * group); ++t) {
        T* const row = dlogits.as<T>() + t * dlogits.strides[0];
        T* const out = to.target(row, dlogits.strides[1], n);
        rows<T>().cross_entropy_gradient(
            from.source(logits.as<T>() + t * logits.strides[0], logits.strides[1], n),
            lse.as<T>()[t * lse.strides[0]], g.as<T>()[t * g.strides[0]],
            targets.as<int64_t>()[t * targets.strides[0]], out, n);
        to.finish(row, dlogits.strides[1], n);
      }
    });
  });
  return true;
}

}  // namespace tete::cpu_kernels
