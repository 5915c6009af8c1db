// Reference-counted bytes of a device. Released bytes go to free lists, so that a steady training
// step asks the system for nothing.
#pragma once
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <utility>

#include "core/backend.hpp"

namespace tete {

class Storage {
 public:
  Storage() = default;
  Storage(Backend& backend, size_t bytes);
  Storage(const Storage& other) : block_(other.block_) {
    if (block_) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Storage(Storage&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Storage& operator=(Storage other) noexcept { return std::swap(block_, other.block_), *this; }
  ~Storage() { drop(); }

  explicit operator bool() const { return block_ != nullptr; }
  void* data() const { return block_ ? block_->bytes : nullptr; }
  Backend& backend() const { return *block_->backend; }
  // True if another Storage holds the bytes, too.
  bool is_shared() const {
    return block_ && block_->references.load(std::memory_order_acquire) > 1;
  }
  bool same(const Storage& other) const { return block_ == other.block_; }

 private:
  struct Block {
    std::atomic<int> references;
    Backend* backend;
    size_t used, capacity;  // bytes asked for, and bytes allocated
    void* bytes;
  };
  void drop() noexcept;

  Block* block_ = nullptr;
  friend class FreeLists;
};

// Small blocks of the processor's memory, which one thread takes and gives back: without a lock,
// for which threads of a loop would wait, and they stay in its caches.
class OwnBlocks {
 public:
  static constexpr size_t most = size_t{1} << 18;  // bytes of a block
  static OwnBlocks& of_thread();
  OwnBlocks();
  ~OwnBlocks();
  OwnBlocks(const OwnBlocks&) = delete;

  // Aligned to 64 bytes. Throws as Backend::allocate does.
  void* take(size_t bytes);
  void give(void* block, size_t bytes) noexcept;

 private:
  static constexpr size_t least = 256;
  static size_t class_of(size_t bytes) {
    return static_cast<size_t>(std::bit_width((std::max<size_t>(bytes, 1) - 1) / least));
  }
  std::array<std::vector<void*>, std::bit_width(most / least)> free_;  // by powers of two of bytes
  std::atomic<size_t> live_ = 0, peak_ = 0;                            // written by this thread
  friend class AllOwnBlocks;
};

struct MemoryUse {
  size_t live = 0;                // bytes that tensors and kernels hold now
  size_t peak = 0;                // the most they ever held since reset_peak_memory()
  size_t kept = 0;                // bytes in the free lists
  size_t system_allocations = 0;  // how often the device was asked for more
};
MemoryUse memory_use(Backend& of = cpu());
void reset_peak_memory(Backend& of = cpu());
// Gives the free lists' bytes back to the device.
void release_free_memory(Backend& of = cpu());

}  // namespace tete
