// A device whose memory the host cannot touch. Its addresses are pages that nobody may read or
// write; its kernels are the processor's, on other pages that hold the bytes. So a loop of the host
// over a tensor that lives here dies, and whatever goes through the Backend gives the processor's
// bits.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "core/arguments.hpp"
#include "core/storage.hpp"

namespace tete::tests {

// The same bytes on two ranges of pages: outside, where the addresses are, and inside.
class StrictMemory {
 public:
  StrictMemory() {
    const int file = memfd_create("strict", MFD_CLOEXEC);
    const auto map = [&](int protection) {
      void* const at = mmap(nullptr, arena, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
      if (at == MAP_FAILED) fail(ErrorKind::resource, "cannot map the strict device's memory");
      return static_cast<char*>(at);
    };
    if (file < 0 || ftruncate(file, arena) != 0)
      fail(ErrorKind::resource, "cannot make the strict device's memory");
    outside_ = map(PROT_NONE), inside_ = map(PROT_READ | PROT_WRITE);
    ::close(file);
  }
  ~StrictMemory() { munmap(outside_, arena), munmap(inside_, arena); }
  StrictMemory(const StrictMemory&) = delete;

  void* allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const size_t rounded = (bytes + 127) / 64 * 64;
    if (used_ + rounded > arena) fail(ErrorKind::resource, "the strict device is full");
    return outside_ + std::exchange(used_, used_ + rounded);
  }
  char* inside(const void* outside) const {
    return inside_ + (static_cast<const char*>(outside) - outside_);
  }

 private:
  static constexpr size_t arena = size_t{2} << 30;  // bytes; a page is there once it is written

  char *outside_, *inside_;
  std::mutex mutex_;
  size_t used_ = 0;
};

class StrictDevice : public Backend {
  // call(arguments …) on the pages that hold the bytes.
  template <class Call, class Arguments>
  auto inside(const Call& call, const Arguments& arguments) const {
    std::vector<View> views = views_of(arguments);
    for (View& view : views)
      if (view.data) view.data = memory_.inside(view.data);
    return call_on(views, call, arguments);
  }
  template <class Argument>
  const Argument& later(const Argument& argument) {
    return argument;
  }
  // Keeps the first place.
  Refuse later(const Refuse& refuse) {
    return [this, refuse, first = true](Index place) mutable {
      if (std::exchange(first, false)) refusals_.push_back([refuse, place] { refuse(place); });
    };
  }

 public:
  // Without fused kernels every operation that has a meaning is computed as it.
  explicit StrictDevice(bool fused = true) : fused_(fused) {}
  // After every tensor that lives here.
  ~StrictDevice() override { release_free_memory(*this); }
  StrictDevice(const StrictDevice&) = delete;

  int64_t reads = 0;                               // by the host, since the start
  std::atomic<int> norms = 0, sums_with_norm = 0;  // kernels that were called

  const char* name() const override { return "strict"; }
  void* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  void release(void*, size_t) noexcept override {}
  // Tells what was found wrong since the last one, as a device does that runs behind the host.
  void read(const void* from, void* to, size_t bytes) override {
    ++reads;
    for (const auto& tell : std::exchange(refusals_, {})) tell();
    cpu().read(memory_.inside(from), to, bytes);
  }
  void write(const void* from, void* to, size_t bytes) override {
    cpu().write(from, memory_.inside(to), bytes);
  }

  bool contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                      const Labels& y) const override {
    return cpu().contracts_bf16(A, a, B, b, Y, y);
  }
  bool attends(Index queries, Index mixed_heads) const override {
    return cpu().attends(queries, mixed_heads);
  }
#define OPERATION(name, parameters, arguments)                                             \
  void name parameters override {                                                          \
    inside([this](const auto&... all) { cpu().name(later(all)...); }, std::tie arguments); \
  }
#include "core/operations.def"
#undef OPERATION
#define KERNEL(name, parameters, arguments)                                                   \
  bool name parameters override {                                                             \
    norms += std::string_view(#name) == "norm";                                               \
    sums_with_norm += std::string_view(#name) == "add_norm";                                  \
    return fused_ &&                                                                          \
           inside([](const auto&... all) { return cpu().name(all...); }, std::tie arguments); \
  }
#include "core/kernels.def"
#undef KERNEL

 private:
  bool fused_;
  StrictMemory memory_;
  std::vector<std::function<void()>> refusals_;
};

}  // namespace tete::tests
