// The bytes of every rank, on all ranks, in log2 P steps: in the step with distance d = 1, 2, 4, …
// a rank passes the bytes that it has, its own and those of the next d - 1 ranks, on to the rank d
// before it (Bruck et al. 1997).
#pragma once
#include "train/comm.hpp"

namespace tete {

class Gathering {
 public:
  // `mine` is copied; `lengths` are those of all ranks' bytes.
  Gathering(int channel, int rank, std::span<const std::byte> mine, std::vector<size_t> lengths);

  // True once all are there.
  bool advance(Transport& transport);
  std::span<const std::byte> of(int rank) const;

  int64_t progress() const { return progress_ + (exchange_ ? exchange_->progress() : 0); }
  std::vector<int> waiting_for() const {
    return exchange_ ? exchange_->waiting_for() : std::vector<int>();
  }
  int64_t bytes() const { return bytes_; }  // sent

 private:
  void begin(Transport& transport);
  int ranks() const { return static_cast<int>(at_.size()) - 1; }

  int channel_, rank_;
  std::vector<size_t> at_;  // where the bytes of rank_ + i begin; at last the end
  Bytes all_;
  int known_ = 1;  // ranks
  std::unique_ptr<Exchange> exchange_;
  int64_t progress_ = 0, bytes_ = 0;
};

}  // namespace tete
