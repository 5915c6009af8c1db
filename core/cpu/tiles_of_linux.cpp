// Linux lends the tiles' registers, which are large, to processes that ask.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/cpu/tiles.hpp"

namespace tete::cpu_kernels {
namespace {

bool processor_has_tiles() {
  constexpr unsigned features = 7, bf16 = 1u << 22, tile = 1u << 24;
  unsigned a, b, c, d;
  return __get_cpuid_count(features, 0, &a, &b, &c, &d) && (d & bf16) && (d & tile);
}

bool system_lends_tiles() {
  constexpr int request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, in kernels from 5.16 on
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

}  // namespace

bool tiles_are_granted() {
  static const bool granted = processor_has_tiles() && system_lends_tiles();
  return granted;
}

}  // namespace tete::cpu_kernels
