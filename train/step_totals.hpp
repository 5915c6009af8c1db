// The loss and the tokens of a step, and which gradients there are, over all ranks.
#pragma once
#include "train/bucket.hpp"
#include "train/gathering.hpp"

namespace tete {

class StepTotals {
 public:
  StepTotals(int channel, const SumOfRanks& sum);
  // True once the nodes of all ranks are known.
  bool advance(Transport& transport) { return gathering_.advance(transport); }
  const Gathering& gathering() const { return gathering_; }
  // The sums, in the tree's order; a gradient that no rank has is an empty Tensor.
  ShardSum result(const SumOfRanks& sum) const;

 private:
  struct Numbers {
    double loss = 0;
    int64_t tokens = 0;
  };
  static Bytes of_this_rank(const SumOfRanks& sum);
  static std::vector<size_t> lengths(const SumOfRanks& sum);

  Gathering gathering_;
};

}  // namespace tete
