#include "core/unchanged.hpp"

#include <algorithm>
#include <utility>

namespace tete {

namespace {

thread_local const Unchanged* known_here = nullptr;

}  // namespace

Unchanged::Unchanged(const Tensors& xs) {
  for (const Tensor& x : xs) {
    if (!x.has_storage() || &x.backend() != &cpu()) continue;
    const View view = x.view();
    Index last = 0;
    for (int d = 0; d < view.rank(); ++d) last += (view.shape[d] - 1) * view.strides[d];
    if (view.size() == 0) continue;
    const auto* const first = static_cast<const std::byte*>(view.data);
    ranges_.push_back({first, first + (last + 1) * static_cast<Index>(size_of(view.dtype))});
    room_ += static_cast<size_t>(view.size()) * size_of(view.dtype);
  }
}

Unchanged::Here::Here(const Unchanged& known) : outer_(std::exchange(known_here, &known)) {}
Unchanged::Here::~Here() { known_here = outer_; }

const Unchanged* Unchanged::at(const void* address) {
  if (!known_here) return nullptr;
  const auto& ranges = known_here->ranges_;
  const bool is_inside = std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    return range.first <= address && address < range.end;
  });
  return is_inside ? known_here : nullptr;
}

const void* Unchanged::made_of(std::string_view key, size_t bytes, const Make& make) const {
  {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = made_.try_emplace(std::string(key));
    if (found->second) return found->second.data();
    if (is_new || bytes > room_) return nullptr;
    room_ -= bytes;
  }
  Storage made(cpu(), bytes);
  make(made.data());
  const std::lock_guard lock(mutex_);
  Storage& kept = made_[std::string(key)];
  if (!kept) kept = std::move(made);
  return kept.data();
}

}  // namespace tete
