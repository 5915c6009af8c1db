#include "core/vulkan/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "core/error.hpp"

namespace tete::vulkan {

namespace {

constexpr size_t usual_block = size_t{64} << 20;  // bytes

VkBuffer make_buffer(const Opened& card, size_t bytes) {
  const VkBufferCreateInfo info{.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                .size = bytes,
                                .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                         VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                         VK_BUFFER_USAGE_TRANSFER_DST_BIT};
  VkBuffer buffer = nullptr;
  check(card.api.CreateBuffer(card.device, &info, nullptr, &buffer), "vkCreateBuffer");
  return buffer;
}

// Memory for a buffer, of the first type with all of the flags; null if there is none left.
VkDeviceMemory memory_for(const Opened& card, VkBuffer buffer, VkMemoryPropertyFlags flags) {
  VkMemoryRequirements needs;
  card.api.GetBufferMemoryRequirements(card.device, buffer, &needs);
  for (uint32_t i = 0; i < card.memory.memoryTypeCount; ++i) {
    const bool fits = (needs.memoryTypeBits >> i & 1) &&
                      (card.memory.memoryTypes[i].propertyFlags & flags) == flags;
    if (!fits) continue;
    const VkMemoryAllocateInfo info{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                    .allocationSize = needs.size,
                                    .memoryTypeIndex = i};
    VkDeviceMemory memory = nullptr;
    if (card.api.AllocateMemory(card.device, &info, nullptr, &memory) == VK_SUCCESS) return memory;
  }
  return nullptr;
}

size_t rounded(size_t bytes) { return rounded_up(std::max<size_t>(bytes, 1), piece); }

}  // namespace

Memory::~Memory() {
  while (!blocks_.empty()) drop(blocks_.begin());
}

void Memory::drop(Blocks::iterator block) noexcept {
  card_.api.DestroyBuffer(card_.device, block->second.buffer, nullptr);
  card_.api.FreeMemory(card_.device, block->second.memory, nullptr);
  munmap(reinterpret_cast<void*>(block->first), block->second.size);
  blocks_.erase(block);
}

void Memory::refuse(size_t bytes) const {
  size_t used = 0, gap = 0;
  for (const auto& [first, block] : blocks_) {
    used += block.used;
    for (const auto& [offset, size] : block.free) gap = std::max(gap, size);
  }
  fail(ErrorKind::resource, "there is no memory for ", bytes, " more bytes on the device (",
       card_.can.name, "): ", used, " of its ", card_.can.memory,
       " bytes are in use, one tensor has at most ", card_.can.largest,
       " bytes, and what fits into its blocks has ", gap,
       "; a smaller batch or context, or more shards, takes less");
}

Memory::Blocks::iterator Memory::add_block(size_t bytes) {
  const size_t size = std::max(bytes, std::min(usual_block, card_.can.largest / piece * piece));
  const VkBuffer buffer = make_buffer(card_, size);
  const VkDeviceMemory memory = memory_for(card_, buffer, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  void* const pages =
      memory ? mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
             : MAP_FAILED;
  if (pages == MAP_FAILED) {
    card_.api.DestroyBuffer(card_.device, buffer, nullptr);
    card_.api.FreeMemory(card_.device, memory, nullptr);
    refuse(bytes);
  }
  check(card_.api.BindBufferMemory(card_.device, buffer, memory, 0), "vkBindBufferMemory");
  return blocks_
      .emplace(reinterpret_cast<uintptr_t>(pages), Block{buffer, memory, size, 0, {{0, size}}})
      .first;
}

void* Memory::take(Blocks::iterator at, size_t bytes) {
  Block& block = at->second;
  const auto gap = std::find_if(block.free.begin(), block.free.end(),
                                [&](const auto& each) { return each.second >= bytes; });
  if (gap == block.free.end()) return nullptr;
  const auto [offset, size] = *gap;
  block.free.erase(gap);
  if (size > bytes) block.free.emplace(offset + bytes, size - bytes);
  block.used += bytes;
  return reinterpret_cast<void*>(at->first + offset);
}

void* Memory::allocate(size_t asked) {
  const size_t bytes = rounded(asked);
  const std::lock_guard lock(mutex_);
  if (bytes < asked || bytes > card_.can.largest) refuse(asked);
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block)
    if (void* const address = take(block, bytes)) return address;
  return take(add_block(bytes), bytes);
}

void Memory::release(void* address, size_t asked) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = std::prev(blocks_.upper_bound(reinterpret_cast<uintptr_t>(address)));
  Block& block = at->second;
  const size_t offset = reinterpret_cast<uintptr_t>(address) - at->first;
  block.used -= rounded(asked);
  auto gap = block.free.emplace(offset, rounded(asked)).first;
  const auto next = std::next(gap);
  if (next != block.free.end() && gap->first + gap->second == next->first)
    gap->second += next->second, block.free.erase(next);
  if (gap != block.free.begin()) {
    const auto before = std::prev(gap);
    if (before->first + before->second == gap->first)
      before->second += gap->second, block.free.erase(gap);
  }
}

size_t Memory::free() const {
  const std::lock_guard lock(mutex_);
  size_t held = 0, used = 0;
  for (const auto& [first, block] : blocks_) held += block.size, used += block.used;
  const std::optional<size_t> left = card_.can.memory_left(card_.api, card_.physical);
  return left ? *left + held - used : card_.can.memory - std::min(card_.can.memory, used);
}

Place Memory::place(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto at = std::prev(blocks_.upper_bound(reinterpret_cast<uintptr_t>(address)));
  return {at->second.buffer, reinterpret_cast<uintptr_t>(address) - at->first};
}

Staging::Staging(const Opened& card, size_t bytes_, bool cached) : size(bytes_), card_(card) {
  buffer = make_buffer(card, size);
  const VkMemoryPropertyFlags seen =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  if (cached) memory_ = memory_for(card, buffer, seen | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  if (!memory_) memory_ = memory_for(card, buffer, seen);
  if (!memory_) {
    card.api.DestroyBuffer(card.device, buffer, nullptr);
    fail(ErrorKind::resource, "there is no memory for ", size, " bytes that host and device share");
  }
  check(card.api.BindBufferMemory(card.device, buffer, memory_, 0), "vkBindBufferMemory");
  void* mapped = nullptr;
  check(card.api.MapMemory(card.device, memory_, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
  bytes = static_cast<char*>(mapped);
}

Staging::~Staging() {
  card_.api.DestroyBuffer(card_.device, buffer, nullptr);
  card_.api.FreeMemory(card_.device, memory_, nullptr);
}

}  // namespace tete::vulkan
