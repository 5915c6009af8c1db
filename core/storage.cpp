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

// ---- Blocks of a thread ----------------------------------------------------------------------

// Those of all threads, for what they count.
class AllOwnBlocks {
 public:
  static AllOwnBlocks& global() {
    static auto* const all = new AllOwnBlocks;
    return *all;
  }
  void add(OwnBlocks* one) {
    const std::lock_guard lock(mutex_);
    all_.push_back(one);
  }
  void remove(OwnBlocks* one) {
    const std::lock_guard lock(mutex_);
    std::erase(all_, one);
  }
  // The threads' peaks need not have been at the same time.
  void add_to(MemoryUse& use) {
    const std::lock_guard lock(mutex_);
    for (const OwnBlocks* each : all_) use.live += each->live_, use.peak += each->peak_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    for (OwnBlocks* each : all_) each->peak_ = each->live_.load();
  }

 private:
  std::mutex mutex_;
  std::vector<OwnBlocks*> all_;
};

OwnBlocks& OwnBlocks::of_thread() {
  static thread_local OwnBlocks blocks;
  return blocks;
}
OwnBlocks::OwnBlocks() { AllOwnBlocks::global().add(this); }
OwnBlocks::~OwnBlocks() {
  AllOwnBlocks::global().remove(this);
  for (const auto& blocks : free_)
    for (void* block : blocks) cpu().release(block, 0);
}

void* OwnBlocks::take(size_t bytes) {
  std::vector<void*>& free = free_[class_of(bytes)];
  void* const block = free.empty() ? cpu().allocate(least << class_of(bytes)) : free.back();
  if (!free.empty()) free.pop_back();
  const size_t live = live_.load(std::memory_order_relaxed) + bytes;
  live_.store(live, std::memory_order_relaxed);
  if (live > peak_.load(std::memory_order_relaxed)) peak_.store(live, std::memory_order_relaxed);
  return block;
}

void OwnBlocks::give(void* block, size_t bytes) noexcept {
  free_[class_of(bytes)].push_back(block);
  live_.store(live_.load(std::memory_order_relaxed) - bytes, std::memory_order_relaxed);
}

// ---- Use -------------------------------------------------------------------------------------

MemoryUse memory_use(Backend& of) {
  MemoryUse use = FreeLists::global().use(of);
  if (&of == &cpu()) AllOwnBlocks::global().add_to(use);
  return use;
}
void reset_peak_memory(Backend& of) {
  FreeLists::global().reset_peak(of);
  if (&of == &cpu()) AllOwnBlocks::global().reset_peak();
}
void release_free_memory(Backend& of) { FreeLists::global().release_all(of); }

}  // namespace tete
