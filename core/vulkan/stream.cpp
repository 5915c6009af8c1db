#include "core/vulkan/stream.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/error.hpp"

namespace tete::vulkan {

namespace {

constexpr int batch_size = 64;                     // calls
constexpr size_t staging_size = size_t{16} << 20;  // bytes
constexpr size_t most_inline = size_t{64} << 10;   // bytes that are recorded themselves
constexpr VkPipelineStageFlags device_stages =
    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkAccessFlags device_writes = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
constexpr VkAccessFlags device_access =
    device_writes | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;

}  // namespace

void Words::add_bits(const void* from, size_t bytes) {
  // A double begins at a multiple of 8 bytes, as the shaders have it.
  if (bytes == 8) count_ += count_ % 2;
  if (4 * count_ + bytes > 4 * most_words) fail(ErrorKind::resource, "a call has too many words");
  std::memcpy(&words_[count_], from, bytes);
  count_ += static_cast<uint32_t>(bytes / 4);
}

Stream::Stream(const Opened& card, const Memory& memory, const Options& options)
    : card_(card), memory_(memory), options_(options), pipelines_(card) {
  const VkCommandPoolCreateInfo pool{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                     .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                     .queueFamilyIndex = card.can.queue_family};
  check(card.api.CreateCommandPool(card.device, &pool, nullptr, &pool_), "vkCreateCommandPool");
  for (Batch& batch : batches_) {
    const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = pool_,
                                           .commandBufferCount = 1};
    check(card.api.AllocateCommandBuffers(card.device, &info, &batch.commands),
          "vkAllocateCommandBuffers");
  }
  const VkSemaphoreTypeCreateInfo timeline{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                           .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  const VkSemaphoreCreateInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                   .pNext = &timeline};
  check(card.api.CreateSemaphore(card.device, &info, nullptr, &semaphore_), "vkCreateSemaphore");
}

Stream::~Stream() {
  card_.api.DeviceWaitIdle(card_.device);
  card_.api.DestroySemaphore(card_.device, semaphore_, nullptr);
  card_.api.DestroyCommandPool(card_.device, pool_, nullptr);
}

// ---- Recording -------------------------------------------------------------------------------

VkCommandBuffer Stream::commands() {
  Batch& batch = batches_[at_];
  if (records_) return batch.commands;
  wait(batch.number);
  const VkCommandBufferBeginInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  check_lost(card_.api.BeginCommandBuffer(batch.commands, &info), "vkBeginCommandBuffer");
  records_ = true, recorded_ = 0;
  return batch.commands;
}

void Stream::barrier(VkPipelineStageFlags to, VkAccessFlags access) {
  const VkMemoryBarrier all{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                            .srcAccessMask = device_writes,
                            .dstAccessMask = access};
  card_.api.CmdPipelineBarrier(commands(), device_stages, to, 0, 1, &all, 0, nullptr, 0, nullptr);
}

// A barrier, if what the next call touches was touched since the last one and either writes.
void Stream::order(std::span<const Bound> touched) {
  const auto range_of = [](const Bound& each) {
    const auto begin = reinterpret_cast<uintptr_t>(each.from);
    return Range{begin, begin + each.bytes};
  };
  const auto meets = [](const std::vector<Range>& earlier, const Range& range) {
    return std::any_of(earlier.begin(), earlier.end(), [&](const Range& each) {
      return each.begin < range.end && range.begin < each.end;
    });
  };
  const bool waits = std::any_of(touched.begin(), touched.end(), [&](const Bound& each) {
    const Range range = range_of(each);
    return meets(writes_, range) || (each.writes && meets(reads_, range));
  });
  if (waits && options_.has_barriers) {
    barrier(device_stages, device_access);
    ++counts_.barriers;
    reads_.clear(), writes_.clear();
  }
  for (const Bound& each : touched) (each.writes ? writes_ : reads_).push_back(range_of(each));
}

void Stream::run(const Call& call) {
  if (call.groups <= 0) return;
  const std::lock_guard lock(mutex_);
  const VkPipeline pipeline = pipelines_.find(call.shader, call.constants);
  const VkCommandBuffer to = commands();  // may wait for the device
  const auto start = std::chrono::steady_clock::now();
  order(call.buffers);
  std::array<VkDescriptorBufferInfo, most_buffers> infos;
  std::array<VkWriteDescriptorSet, most_buffers> writes;
  const auto count = static_cast<uint32_t>(call.buffers.size());
  for (uint32_t i = 0; i < count; ++i) {
    const Place place = memory_.place(call.buffers[i].from);
    infos[i] = {place.buffer, place.offset, call.buffers[i].bytes};
    writes[i] = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                 .dstBinding = i,
                 .descriptorCount = 1,
                 .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                 .pBufferInfo = &infos[i]};
  }
  const Api& api = card_.api;
  const auto point = VK_PIPELINE_BIND_POINT_COMPUTE;
  api.CmdBindPipeline(to, point, pipeline);
  api.CmdPushDescriptorSetKHR(to, point, pipelines_.layout(), 0, count, writes.data());
  api.CmdPushConstants(to, pipelines_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, call.words.bytes(),
                       call.words.data());
  const auto most = static_cast<Index>(card_.can.most_groups);
  const Index down = pieces_of(call.groups, most), right = pieces_of(call.groups, down);
  api.CmdDispatch(to, static_cast<uint32_t>(right), static_cast<uint32_t>(down), 1);
  ++counts_.dispatches;
  counts_.recording +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  last_.push_back(name_of(call.shader));
  if (last_.size() > 8) last_.pop_front();
  if (++recorded_ >= batch_size) submit();
}

void Stream::copy(Place from, Place to, size_t bytes) {
  const VkBufferCopy region{from.offset, to.offset, bytes};
  card_.api.CmdCopyBuffer(commands(), from.buffer, to.buffer, 1, &region);
}

void Stream::fill(void* to, size_t bytes, uint32_t word) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const Bound whole{to, bytes, true};
  order({&whole, 1});
  const Place place = memory_.place(to);
  card_.api.CmdFillBuffer(commands(), place.buffer, place.offset, bytes, word);
}

// ---- Between the host and the device ---------------------------------------------------------

void Stream::write(const void* from, void* to, size_t bytes) {
  const std::lock_guard lock(mutex_);
  counts_.written += bytes;
  const char* source = static_cast<const char*>(from);
  char* target = static_cast<char*>(to);
  while (bytes > 0) {
    const size_t some = std::min(bytes, staging_size);
    const Bound range{target, some, true};
    if (some <= most_inline && some % 4 == 0 && reinterpret_cast<uintptr_t>(target) % 4 == 0) {
      order({&range, 1});
      const Place place = memory_.place(target);
      card_.api.CmdUpdateBuffer(commands(), place.buffer, place.offset, some, source);
    } else {
      if (!up_) up_.emplace(card_, staging_size, false);
      if (up_used_ + some > staging_size) {
        submit(), wait(submitted_);
        up_used_ = 0;
      }
      std::memcpy(up_->bytes + up_used_, source, some);
      order({&range, 1});
      copy({up_->buffer, up_used_}, memory_.place(target), some);
      up_used_ += rounded_up(some, 16);
    }
    source += some, target += some, bytes -= some;
  }
}

// Those fit into the staging buffer together.
void Stream::read_some(std::span<const Reading> readings) {
  if (!down_) down_.emplace(card_, staging_size, true);
  size_t used = 0;
  for (const Reading& each : readings) {
    const Bound range{each.from, each.bytes, false};
    order({&range, 1});
    copy(memory_.place(each.from), {down_->buffer, used}, each.bytes);
    used += rounded_up(each.bytes, 16);
  }
  barrier(VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  submit(), wait(submitted_);
  up_used_ = used = 0;
  for (const Reading& each : readings) {
    std::memcpy(each.to, down_->bytes + used, each.bytes);
    used += rounded_up(each.bytes, 16);
  }
}

void Stream::read(std::span<const Reading> readings) {
  const std::lock_guard lock(mutex_);
  ++counts_.reads;
  size_t all = 0;
  for (const Reading& each : readings) counts_.read += each.bytes, all += each.bytes + 16;
  if (all <= staging_size) return read_some(readings);
  for (Reading rest : readings)
    while (rest.bytes > 0) {
      const Reading some{rest.from, rest.to, std::min(rest.bytes, staging_size)};
      read_some({&some, 1});
      rest = {static_cast<const char*>(rest.from) + some.bytes,
              static_cast<char*>(rest.to) + some.bytes, rest.bytes - some.bytes};
    }
}

// ---- Submissions -----------------------------------------------------------------------------

void Stream::submit() {
  if (!records_) return;
  Batch& batch = batches_[at_];
  records_ = false;
  at_ = (at_ + 1) % batches_.size();
  check_lost(card_.api.EndCommandBuffer(batch.commands), "vkEndCommandBuffer");
  batch.number = submitted_ + 1;
  const VkTimelineSemaphoreSubmitInfo timeline{
      .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
      .signalSemaphoreValueCount = 1,
      .pSignalSemaphoreValues = &batch.number};
  const VkSubmitInfo info{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                          .pNext = &timeline,
                          .commandBufferCount = 1,
                          .pCommandBuffers = &batch.commands,
                          .signalSemaphoreCount = 1,
                          .pSignalSemaphores = &semaphore_};
  check_lost(card_.api.QueueSubmit(card_.queue, 1, &info, nullptr), "vkQueueSubmit");
  submitted_ = batch.number;
  ++counts_.submissions;
}

void Stream::wait(uint64_t number) {
  const VkSemaphoreWaitInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                 .semaphoreCount = 1,
                                 .pSemaphores = &semaphore_,
                                 .pValues = &number};
  check_lost(card_.api.WaitSemaphores(card_.device, &info, UINT64_MAX), "vkWaitSemaphores");
}

void Stream::finish() {
  const std::lock_guard lock(mutex_);
  submit(), wait(submitted_);
  up_used_ = 0;
}

void Stream::check_lost(VkResult result, const char* what) const {
  if (result == VK_ERROR_DEVICE_LOST)
    fail(ErrorKind::resource, "the device ", card_.can.name, " was lost in ", what,
         "; the last calls were ", list_of(last_));
  check(result, what);
}

Counts Stream::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace tete::vulkan
