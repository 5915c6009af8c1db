// Unchanged: numbers that stay as they are for a while, so that a kernel may keep what it makes of
// them instead of making it at every call.
#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/tensor.hpp"

namespace tete {

class Unchanged {
 public:
  // Nobody writes these tensors' storage while this object lives.
  explicit Unchanged(const Tensors& xs);
  Unchanged(const Unchanged&) = delete;

  // Makes it known to the kernels that the calling thread runs, while it lives.
  class Here {
   public:
    explicit Here(const Unchanged& known);
    ~Here();
    Here(const Here&) = delete;

   private:
    const Unchanged* outer_;
  };

  // What the calling thread's kernels know to be unchanged at this address; null if nothing.
  static const Unchanged* at(const void* address);

  using Make = std::function<void(void* to)>;
  // What make() writes, so many bytes of the processor's memory, aligned to 64. Null the first time
  // that a key is asked for, as most keys are asked for once, and if the copies would take more
  // memory than the tensors do. `key` says all that the bytes depend on.
  const void* made_of(std::string_view key, size_t bytes, const Make& make) const;

 private:
  struct Range {
    const void *first, *end;
  };
  std::vector<Range> ranges_;
  mutable std::mutex mutex_;
  mutable size_t room_ = 0;                                // bytes that copies may still take
  mutable std::unordered_map<std::string, Storage> made_;  // empty if asked for once
};

}  // namespace tete
