// Memory for one kernel's own use.
#pragma once
#include <bit>

#include "core/storage.hpp"
#include "core/threads.hpp"

namespace tete::cpu_kernels {

// Free small blocks of one thread. They need no lock, for which the threads of a loop would wait,
// and a block stays in its thread's caches. No MemoryUse counts them.
class OwnBlocks {
 public:
  static constexpr size_t most_bytes = size_t{1} << 18;
  static OwnBlocks& of_thread();
  OwnBlocks() = default;
  ~OwnBlocks();
  OwnBlocks(const OwnBlocks&) = delete;

  // Aligned to 64 bytes. Throws as Backend::allocate does.
  void* take(size_t bytes);
  // Takes back a block of any thread, and keeps a few of each size.
  void give(void* block, size_t bytes) noexcept;

 private:
  static constexpr size_t least_bytes = 256, sizes = std::bit_width(most_bytes / least_bytes);
  struct Blocks {
    void* all[16];
    size_t count = 0;
  };
  static size_t size_class(size_t bytes) {
    return static_cast<size_t>(std::bit_width((bytes - (bytes > 0)) / least_bytes));
  }
  Blocks free_[sizes];  // by powers of two of bytes
};

// Aligned memory for one kernel's own use, released when destroyed. Inside a loop that threads
// share, a small block is the thread's own.
class Scratch {
 public:
  explicit Scratch(size_t bytes)
      : bytes_(bytes),
        counted_(in_shared_loop() && bytes <= OwnBlocks::most_bytes ? Storage()
                                                                    : Storage(cpu(), bytes)),
        data_(counted_ ? counted_.data() : OwnBlocks::of_thread().take(bytes)) {}
  ~Scratch() {
    if (!counted_) OwnBlocks::of_thread().give(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  const size_t bytes_;
  const Storage counted_;
  void* const data_;
};

}  // namespace tete::cpu_kernels
