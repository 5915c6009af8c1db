// The processor's memory.
#include "core/cpu/backend.hpp"

#include <cstdlib>
#include <cstring>

namespace tete {
namespace cpu_kernels {

void* CpuBackend::allocate(size_t bytes) {
  const size_t rounded = rounded_up(std::max<size_t>(bytes, 1), 64);
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(64, rounded);
  if (!memory) fail(ErrorKind::resource, "there is no memory for ", bytes, " more bytes");
  return memory;
}
void CpuBackend::release(void* bytes, size_t) noexcept { std::free(bytes); }

static void copy_bytes(const void* from, void* to, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void CpuBackend::read(const void* from, void* to, size_t bytes) { copy_bytes(from, to, bytes); }
void CpuBackend::write(const void* from, void* to, size_t bytes) { copy_bytes(from, to, bytes); }

}  // namespace cpu_kernels

Backend& cpu() {
  static auto* const backend =
      new cpu_kernels::CpuBackend;  // never destroyed: tensors may outlive it
  return *backend;
}

}  // namespace tete
