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
      use_.live += capacity;
      use_.peak = std::max(use_.peak, use_.live);
      auto& free = free_[{&backend, capacity}];
      if (!free.empty()) {
        Storage::Block* block = free.back();
        free.pop_back();
        use_.kept -= capacity;
        block->references.store(1, std::memory_order_relaxed);
        return block;
      }
      ++use_.system_allocations;
    }
    try {
      return new Storage::Block{1, &backend, capacity, backend.allocate(capacity)};
    } catch (...) {
      std::lock_guard lock(mutex_);
      use_.live -= capacity;
      throw;
    }
  }

  void give(Storage::Block* block) noexcept {
    std::lock_guard lock(mutex_);
    use_.live -= block->capacity;
    use_.kept += block->capacity;
    free_[{block->backend, block->capacity}].push_back(block);
  }

  void release_all() {
    std::lock_guard lock(mutex_);
    for (auto& [key, blocks] : free_) {
      for (Storage::Block* block : blocks) {
        block->backend->release(block->bytes, block->capacity);
        delete block;
      }
      blocks.clear();
    }
    use_.kept = 0;
  }

  MemoryUse use() {
    std::lock_guard lock(mutex_);
    return use_;
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    use_.peak = use_.live;
  }

 private:
  static size_t size_class(size_t bytes) {
    if (bytes <= 256) return 256;
    const size_t quarter = std::bit_floor(bytes - 1) / 4;
    return (bytes + quarter - 1) / quarter * quarter;
  }

  std::mutex mutex_;
  std::map<std::pair<Backend*, size_t>, std::vector<Storage::Block*>> free_;
  MemoryUse use_;
};

Storage::Storage(Backend& backend, size_t bytes)
    : block_(FreeLists::global().take(backend, bytes)) {}

void Storage::drop() noexcept {
  if (block_ && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    FreeLists::global().give(block_);
}

MemoryUse memory_use() { return FreeLists::global().use(); }
void reset_peak_memory() { FreeLists::global().reset_peak(); }
void release_free_memory() { FreeLists::global().release_all(); }

}  // namespace tete
