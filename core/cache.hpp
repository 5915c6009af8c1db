// Values that are made once for equal keys, by whichever thread asks first.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tete {

// All are forgotten when there would be more than `most`.
template <class Value>
class Cache {
 public:
  explicit Cache(size_t most) : most_(most) {}

  // The value of make() for this key. Two threads may make one at a time; the first is kept.
  template <class Make>
  std::shared_ptr<const Value> get(std::string_view key, const Make& make) {
    {
      std::lock_guard lock(mutex_);
      if (const auto found = made_.find(key); found != made_.end()) return found->second;
    }
    auto made = std::make_shared<const Value>(make());
    std::lock_guard lock(mutex_);
    if (made_.size() >= most_) made_.clear();
    return made_.emplace(key, std::move(made)).first->second;
  }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  const size_t most_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Value>, Hash, std::equal_to<>> made_;
};

}  // namespace tete
