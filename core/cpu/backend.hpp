// The processor as a Backend: each kernel is in the file that is named after it. Besides, what
// kernels share.
#pragma once
#include "core/cpu/scratch.hpp"

namespace tete::cpu_kernels {

class CpuBackend final : public Backend {
 public:
  const char* name() const override { return "cpu"; }
  void* allocate(size_t bytes) override;
  void release(void* bytes, size_t count) noexcept override;
  void read(const void* from, void* to, size_t bytes) override;
  void write(const void* from, void* to, size_t bytes) override;

  bool contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                      const Labels& y) const override;
  bool attends(Index queries, Index mixed_heads) const override;
#define OPERATION(name, parameters, arguments) void name parameters override;
#include "core/operations.def"
#undef OPERATION
#define KERNEL(name, parameters, arguments) bool name parameters override;
#include "core/kernels.def"
#undef KERNEL
};

// fold.cpp. y = Σ a·b: the three views have one shape, in which y has stride 0 on the summed
// dimensions.
void fold_product(const View& a, const View& b, const View& y);

}  // namespace tete::cpu_kernels
