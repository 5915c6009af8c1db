// The work of a device, in one order: shaders and copies are recorded, and sent in batches.
//
// Two calls that touch the same bytes, one of them writing, are held apart by a barrier for all of
// memory; calls between two barriers run at once.
#pragma once
#include <array>
#include <deque>
#include <optional>

#include "core/vulkan/memory.hpp"
#include "core/vulkan/pipelines.hpp"

namespace tete::vulkan {

// Bytes that a call reads, or also writes. They begin at a multiple of `piece`.
struct Bound {
  const void* from;
  size_t bytes;
  bool writes;
};

// The parameters of a call, as its shader declares them.
class Words {
 public:
  void add(double x) { add_bits(&x, sizeof x); }
  void add(float x) { add_bits(&x, sizeof x); }
  template <class Whole>
  requires std::is_integral_v<Whole>
  void add(Whole x) {
    const auto word = static_cast<uint32_t>(x);
    add_bits(&word, sizeof word);
  }
  template <class First, class... Others>
  requires(sizeof...(Others) > 0) void add(First first, Others... others) {
    add(first), add(others...);
  }
  void add(const Words& others) {
    for (uint32_t i = 0; i < others.count_; ++i) add(others.words_[i]);
  }
  // Adds a number as the shaders of a type take it.
  void add_real(double x, Dtype dtype) {
    dtype == Dtype::f64 ? add(x) : add(static_cast<float>(x));
  }
  const void* data() const { return words_.data(); }
  uint32_t bytes() const { return count_ * 4; }

 private:
  void add_bits(const void* from, size_t bytes);
  std::array<uint32_t, most_words> words_{};
  uint32_t count_ = 0;
};

struct Call {
  Shader shader;
  Constants constants;
  std::vector<Bound> buffers;
  Words words;
  Index groups;  // of invocations
};

// Bytes of the device, and where they go on the host.
struct Reading {
  const void* from;
  void* to;
  size_t bytes;
};

class Stream {
 public:
  Stream(const Opened& card, const Memory& memory, const Options& options);
  ~Stream();
  Stream(const Stream&) = delete;

  void run(const Call& call);
  // All bytes of a range become those of this word; the range is a whole number of words.
  void fill(void* to, size_t bytes, uint32_t word);
  void write(const void* from, void* to, size_t bytes);
  // Waits for all before.
  void read(std::span<const Reading> readings);
  void finish();
  Counts counts() const;

 private:
  struct Range {
    uintptr_t begin, end;
  };
  struct Batch {
    VkCommandBuffer commands = nullptr;
    uint64_t number = 0;  // of the submission; the semaphore reaches it when all is done
  };

  VkCommandBuffer commands();
  void order(std::span<const Bound> touched);
  void barrier(VkPipelineStageFlags to, VkAccessFlags access);
  void copy(Place from, Place to, size_t bytes);
  void submit();
  void wait(uint64_t number);
  void read_some(std::span<const Reading> readings);
  void check_lost(VkResult result, const char* what) const;

  const Opened& card_;
  const Memory& memory_;
  const Options options_;
  Pipelines pipelines_;
  mutable std::mutex mutex_;
  VkCommandPool pool_ = nullptr;
  VkSemaphore semaphore_ = nullptr;
  std::array<Batch, 4> batches_;
  size_t at_ = 0;         // the batch that is being recorded, or will be next
  bool records_ = false;  // true: it is open
  uint64_t submitted_ = 0;
  int recorded_ = 0;                   // calls of the open batch
  std::vector<Range> reads_, writes_;  // since the last barrier
  std::optional<Staging> up_, down_;   // made when they are needed
  size_t up_used_ = 0;
  std::deque<const char*> last_;  // the names of the last calls, for a device that is lost
  Counts counts_;
};

}  // namespace tete::vulkan
