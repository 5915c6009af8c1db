#include "core/storage.hpp"

#include <bit>
#include <map>
#include <mutex>
#include <vector>

namespace tete {

// One list of free blocks for each size class. Four classes to a power of two, so at most a fifth
// of a block is wasted and sizes that vary a little share blocks.
class FreeLists {
 public:
  // Never destroyed: tensors may outlive every other static object.
  static FreeLists& global() {
    static FreeLists* lists = new FreeLists;
    return *lists;
  }

  Storage::Block* take(Backend& backend, size_t bytes) {
    const size_t capacity = size_class(bytes);
    {
      std::lock_guard lock(mutex_);
      Memory& memory = memory_[&backend];
      memory.use.live += bytes;
      memory.use.peak = std::max(memory.use.peak, memory.use.live);
      auto& free = memory.free[capacity];
      if (!free.empty()) {
        Storage::Block* block = free.back();
        free.pop_back();
        memory.use.kept -= capacity;
        block->used = bytes;
        block->references.store(1, std::memory_order_relaxed);
        return block;
      }
      ++memory.use.system_allocations;
    }
    try {
      return new Storage::Block{1, &backend, bytes, capacity, backend.allocate(capacity)};
    } catch (...) {
      std::lock_guard lock(mutex_);
      memory_[&backend].use.live -= bytes;
      throw;
    }
  }

  void give(Storage::Block* block) noexcept {
    std::lock_guard lock(mutex_);
    Memory& memory = memory_[block->backend];
    memory.use.live -= block->used;
    memory.use.kept += block->capacity;
    memory.free[block->capacity].push_back(block);
  }

  void release_all(Backend& backend) {
    std::lock_guard lock(mutex_);
    Memory& memory = memory_[&backend];
    for (auto& [capacity, blocks] : memory.free)
      for (Storage::Block* block : blocks) {
        backend.release(block->bytes, capacity);
        delete block;
      }
    memory.free.clear();
    memory.use.kept = 0;
  }

  MemoryUse use(Backend& backend) {
    std::lock_guard lock(mutex_);
    return memory_[&backend].use;
  }
  void reset_peak(Backend& backend) {
    std::lock_guard lock(mutex_);
    MemoryUse& use = memory_[&backend].use;
    use.peak = use.live;
  }

 private:
  struct Memory {
    std::map<size_t, std::vector<Storage::Block*>> free;  // by capacity
    MemoryUse use;
  };
  static size_t size_class(size_t bytes) {
    if (bytes <= 256) return 256;
    const size_t quarter = std::bit_floor(bytes - 1) / 4;
    return rounded_up(bytes, quarter);
  }

  std::mutex mutex_;
  std::map<Backend*, Memory> memory_;
};

Storage::Storage(Backend& backend, size_t bytes)
    : block_(FreeLists::global().take(backend, bytes)) {}

void Storage::drop() noexcept {
  if (block_ && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    FreeLists::global().give(block_);
}

MemoryUse memory_use(Backend& of) { return FreeLists::global().use(of); }
void reset_peak_memory(Backend& of) { FreeLists::global().reset_peak(of); }
void release_free_memory(Backend& of) { FreeLists::global().release_all(of); }

}  // namespace tete
