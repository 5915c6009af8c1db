// A device's memory: large blocks, which are cut into pieces of 256 bytes and more.
//
// An address is a place in pages that are reserved and that nobody may touch, so that no two
// devices share one and a loop of the host over a device's tensor dies.
#pragma once
#include <map>

#include "core/vulkan/device.hpp"

namespace tete::vulkan {

// Every piece begins at a multiple of this, which is one for every device's buffers.
inline constexpr size_t piece = 256;

// A part of a buffer of Vulkan.
struct Place {
  VkBuffer buffer;
  VkDeviceSize offset;
};

class Memory {
 public:
  explicit Memory(const Opened& card) : card_(card) {}
  ~Memory();
  Memory(const Memory&) = delete;

  // Fails (resource), with what would fit, if none is left.
  void* allocate(size_t bytes);
  void release(void* address, size_t bytes) noexcept;
  Place place(const void* address) const;
  // Bytes that are left, as the driver tells, or else of the largest heap.
  size_t free() const;

 private:
  struct Block {
    VkBuffer buffer;
    VkDeviceMemory memory;
    size_t size, used;
    std::map<size_t, size_t> free;  // sizes of the gaps, by offset
  };
  using Blocks = std::map<uintptr_t, Block>;  // by the first address

  void* take(Blocks::iterator block, size_t bytes);
  Blocks::iterator add_block(size_t bytes);
  void drop(Blocks::iterator block) noexcept;
  [[noreturn]] void refuse(size_t bytes) const;

  const Opened& card_;
  mutable std::mutex mutex_;
  Blocks blocks_;
};

// A buffer that host and device see, for what goes between them.
class Staging {
 public:
  // Memory that the host reads from fast, if it is cached.
  Staging(const Opened& card, size_t bytes, bool cached);
  ~Staging();
  Staging(const Staging&) = delete;

  VkBuffer buffer = nullptr;
  char* bytes = nullptr;
  size_t size;

 private:
  const Opened& card_;
  VkDeviceMemory memory_ = nullptr;
};

}  // namespace tete::vulkan
