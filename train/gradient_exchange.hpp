// Partial sums of gradients go to all ranks, and their sum comes back, bucket by bucket
// (train/bucket.hpp). They go while the backward pass computes later gradients; the sum comes back
// while the next forward pass computes with the first layers' new values.
#pragma once
#include <atomic>
#include <memory>
#include <optional>

#include "train/step_totals.hpp"

namespace tete {

class GradientExchange : public Comm::Job {
 public:
  // A rank gets the sums of all gradients, or those of its part of each bucket.
  enum class Result { whole, part };
  // `nodes` are this rank's; the last one's gradients and loss may still be empty. All are on the
  // processor.
  GradientExchange(int rank, const TreeOrder& order, const Tensors& layouts,
                   std::shared_ptr<std::vector<ShardSum>> nodes, const Division& division,
                   Result wanted, SendAs send);

  // The gradients of a parameter are final in all of this rank's nodes. Each parameter once.
  void ready(size_t parameter);
  // So are the losses.
  void complete() { complete_.store(true, std::memory_order_release); }
  // True once this rank's part of all sums is known, and so are the totals.
  bool is_summed() const { return summed_.load(std::memory_order_acquire); }
  // The other ranks' parts may come, unless Result::part is wanted; the first layers' come first.
  void gather() { may_gather_.store(true, std::memory_order_release); }
  // True once all of a parameter's sum is there.
  bool has(size_t parameter) const;
  // After is_summed(). Gradients fill as they come.
  ShardSum result() const { return totals_->result(sum_); }
  // No longer holds a gradient that it has.
  void forget(size_t parameter) { sum_.results[parameter] = {}; }

  State advance(Transport& transport) override;
  int64_t progress() const override;
  std::vector<int> waiting_for() const override;
  int64_t bytes() const override { return bytes_ + (totals_ ? totals_->gathering().bytes() : 0); }

 private:
  // A bucket's scatter or gather.
  struct Leg {
    size_t bucket;
    bool gathers;
    int step = 0;  // the next one of the bucket, or that which is on its way
    std::unique_ptr<Exchange> exchange = {};
  };
  static SumOfRanks sum_of(int rank, const TreeOrder& order, const Tensors& layouts,
                           std::shared_ptr<std::vector<ShardSum>> nodes, const Division& division,
                           Result wanted);
  bool can_begin(const Leg& leg) const;
  bool all_scattered() const { return scattered_ == buckets_.size(); }
  bool move(Transport& transport, Leg& leg);
  std::unique_ptr<Exchange> begin(Transport& transport, const Leg& leg);

  SumOfRanks sum_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  size_t scattered_ = 0;                     // buckets
  std::vector<std::atomic<bool>> gathered_;  // by bucket
  // All ranks begin them in one order, so no two wait for each other.
  std::vector<Leg> legs_;
  size_t begun_ = 0;
  std::vector<Leg*> under_way_;
  std::vector<bool> is_ready_;
  size_t slots_ready_ = 0;
  std::atomic<int64_t> ready_until_{0};
  std::atomic<bool> complete_{false}, summed_{false}, may_gather_{false};
  std::optional<StepTotals> totals_;
  bool totals_known_ = false;
  int64_t progress_ = 0, bytes_ = 0;
};

}  // namespace tete
