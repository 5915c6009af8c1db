#include "train/gathering.hpp"

#include <algorithm>

namespace tete {

Gathering::Gathering(int channel, int rank, std::span<const std::byte> mine,
                     std::vector<size_t> lengths)
    : channel_(channel), rank_(rank), at_(1) {
  std::rotate(lengths.begin(), lengths.begin() + rank, lengths.end());
  for (size_t length : lengths) at_.push_back(at_.back() + length);
  all_.resize(at_.back());
  std::ranges::copy(mine, all_.begin());
}

bool Gathering::advance(Transport& transport) {
  while (known_ < ranks()) {
    if (!exchange_) begin(transport);
    if (!exchange_->test()) return false;
    progress_ += 1 + exchange_->progress();
    exchange_.reset();
    known_ = std::min(2 * known_, ranks());
  }
  return true;
}

void Gathering::begin(Transport& transport) {
  const auto count = static_cast<size_t>(std::min(known_, ranks() - known_));
  const auto from = static_cast<size_t>(known_);
  const std::span<std::byte> all = all_;
  const std::span<std::byte> sent = all.first(at_[count]);
  bytes_ += static_cast<int64_t>(sent.size());
  exchange_ = transport.begin(
      channel_, {{(rank_ + ranks() - known_) % ranks(), sent}},
      {{(rank_ + known_) % ranks(), all.subspan(at_[from], at_[from + count] - at_[from])}});
}

std::span<const std::byte> Gathering::of(int rank) const {
  const auto i = static_cast<size_t>((rank + ranks() - rank_) % ranks());
  return std::span(all_).subspan(at_[i], at_[i + 1] - at_[i]);
}

}  // namespace tete
