// Partial sums of gradients go to all ranks, and their sum comes back: a reduce-scatter by pairwise
// exchange, in which each rank finishes the tree for its part of the numbers, and an all-gather,
// unless each is to have its part alone. A bucket of numbers is on its way while the gradients of
// the next are computed.
#pragma once
#include <memory>

#include "train/tree.hpp"

namespace tete {

class GradientExchange : public Comm::Job {
 public:
  // A rank gets the sums of all gradients, or those of its part of each bucket.
  enum class Result { whole, part };
  // `nodes` are this rank's; the last one's gradients and loss may still be empty. All are on the
  // processor.
  static std::shared_ptr<GradientExchange> make(int rank, const TreeOrder& order,
                                                const Tensors& layouts,
                                                std::shared_ptr<std::vector<ShardSum>> nodes,
                                                const Division& division, Result wanted,
                                                SendAs send);

  // The gradients of a parameter are final in all of this rank's nodes. Each parameter once.
  virtual void ready(size_t parameter) = 0;
  // So are the losses.
  virtual void complete() = 0;
  // After the job is done.
  virtual ShardSum result() = 0;
};

}  // namespace tete
