#include "train/gradient_exchange.hpp"

#include <algorithm>

namespace tete {

constexpr size_t most_under_way = 3;  // legs; more would take memory

SumOfRanks GradientExchange::sum_of(int rank, const TreeOrder& order, const Tensors& layouts,
                                    std::shared_ptr<std::vector<ShardSum>> nodes,
                                    const Division& division, Result wanted) {
  SumOfRanks sum{rank, order, division, std::move(nodes)};
  std::vector<Index> counts(layouts.size());
  for (size_t b = 0; b < division.buckets(); ++b) {
    sum.mine.push_back(division.pieces(b, rank));
    for (Division::Piece& piece : sum.mine.back()) {
      Index& before = counts[piece.parameter];
      if (wanted == Result::part) piece.first = before;
      before += piece.count;
    }
  }
  for (size_t i = 0; i < layouts.size(); ++i) {
    const Tensor& like = layouts[i];
    sum.results.push_back(!like ? Tensor()
                          : wanted == Result::part
                              ? Tensor::empty({counts[i]}, like.dtype())
                              : Tensor::empty_strided(like.shape(), like.strides(), like.dtype()));
  }
  return sum;
}

GradientExchange::GradientExchange(int rank, const TreeOrder& order, const Tensors& layouts,
                                   std::shared_ptr<std::vector<ShardSum>> nodes,
                                   const Division& division, Result wanted, SendAs send)
    : sum_(sum_of(rank, order, layouts, std::move(nodes), division, wanted)),
      gathered_(division.buckets()),
      is_ready_(layouts.size()) {
  Dtype dtype = Dtype::f32;
  for (const Tensor& like : layouts)
    if (like) dtype = like.dtype();
  const size_t count = division.buckets();
  for (size_t b = 0; b < count; ++b) {
    buckets_.push_back(make_bucket(sum_, b, dtype, send));
    legs_.push_back({b, false});
  }
  for (size_t b = count; b-- > 0 && wanted == Result::whole;)
    legs_.push_back({b, true, buckets_[b]->scatter_steps()});
}

void GradientExchange::ready(size_t parameter) {
  is_ready_[parameter] = true;
  const Division& division = sum_.division;
  const std::vector<Division::Slot>& slots = division.slots();
  while (slots_ready_ < slots.size() && is_ready_[slots[slots_ready_].parameter]) ++slots_ready_;
  ready_until_.store(
      slots_ready_ < slots.size() ? slots[slots_ready_].begin : division.begin(buckets_.size(), 0),
      std::memory_order_release);
}

// Gathers wait for `gather`, so that they delay nothing that ranks tell each other between two
// steps.
bool GradientExchange::can_begin(const Leg& leg) const {
  if (leg.gathers) return all_scattered() && may_gather_.load(std::memory_order_acquire);
  return ready_until_.load(std::memory_order_acquire) >= sum_.division.begin(leg.bucket + 1, 0);
}

Comm::Job::State GradientExchange::advance(Transport& transport) {
  for (bool more = true; more;) {
    while (begun_ < legs_.size() && under_way_.size() < most_under_way && can_begin(legs_[begun_]))
      under_way_.push_back(&legs_[begun_++]);
    more = std::erase_if(under_way_, [&](Leg* leg) { return move(transport, *leg); }) > 0;
  }
  if (!totals_ && complete_.load(std::memory_order_acquire))
    totals_.emplace(first_free_channel + static_cast<int>(buckets_.size()), sum_);
  if (totals_ && !totals_known_) totals_known_ = totals_->advance(transport);
  if (totals_known_ && all_scattered()) summed_.store(true, std::memory_order_release);
  if (!under_way_.empty() || (totals_ && !totals_known_)) return State::waiting;
  return begun_ == legs_.size() && totals_known_ ? State::done : State::idle;
}

bool GradientExchange::has(size_t parameter) const {
  const Division& division = sum_.division;
  for (const Division::Slot& slot : division.slots())
    if (slot.parameter == parameter)
      for (size_t b = 0; b < buckets_.size(); ++b)
        if (division.begin(b, 0) < slot.begin + slot.count &&
            division.begin(b + 1, 0) > slot.begin && !gathered_[b].load(std::memory_order_acquire))
          return false;
  return true;
}

std::unique_ptr<Exchange> GradientExchange::begin(Transport& transport, const Leg& leg) {
  Bucket::Step step = buckets_[leg.bucket]->begin(leg.step);
  const auto empty = [](const Message& message) { return message.bytes.empty(); };
  std::erase_if(step.out, empty), std::erase_if(step.in, empty);
  for (const Message& message : step.out) bytes_ += static_cast<int64_t>(message.bytes.size());
  return transport.begin(first_free_channel + static_cast<int>(leg.bucket), step.out, step.in);
}

// True once it is over.
bool GradientExchange::move(Transport& transport, Leg& leg) {
  Bucket& bucket = *buckets_[leg.bucket];
  const int scatters = bucket.scatter_steps();
  const int end = leg.gathers ? scatters + bucket.gather_steps() : scatters;
  while (leg.step < end) {
    if (!leg.exchange) leg.exchange = begin(transport, leg);
    if (!leg.exchange->test()) return false;
    progress_ += 1 + leg.exchange->progress();
    leg.exchange.reset();
    bucket.end(leg.step++);
  }
  if (leg.gathers) gathered_[leg.bucket].store(true, std::memory_order_release);
  else ++scattered_;
  return true;
}

int64_t GradientExchange::progress() const {
  int64_t sum = progress_;
  if (totals_) sum += totals_->gathering().progress();
  for (const Leg* leg : under_way_)
    if (leg->exchange) sum += leg->exchange->progress();
  return sum;
}

std::vector<int> GradientExchange::waiting_for() const {
  if (under_way_.empty()) return totals_ ? totals_->gathering().waiting_for() : std::vector<int>();
  return under_way_.front()->exchange->waiting_for();
}

}  // namespace tete
