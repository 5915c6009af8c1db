// Reference-counted bytes of a device. Released bytes go to free lists, so that a steady training
// step asks the system for nothing.
#pragma once
#include <atomic>
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
