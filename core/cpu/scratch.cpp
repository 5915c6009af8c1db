#include "core/cpu/scratch.hpp"

#include <iterator>

namespace tete::cpu_kernels {

OwnBlocks& OwnBlocks::of_thread() {
  static thread_local OwnBlocks blocks;
  return blocks;
}

OwnBlocks::~OwnBlocks() {
  for (const Blocks& free : free_)
    for (size_t i = 0; i < free.count; ++i) cpu().release(free.all[i], 0);
}

void* OwnBlocks::take(size_t bytes) {
  Blocks& free = free_[size_class(bytes)];
  return free.count > 0 ? free.all[--free.count] : cpu().allocate(least_bytes << size_class(bytes));
}

void OwnBlocks::give(void* block, size_t bytes) noexcept {
  Blocks& free = free_[size_class(bytes)];
  if (free.count < std::size(free.all)) free.all[free.count++] = block;
  else cpu().release(block, 0);
}

}  // namespace tete::cpu_kernels
