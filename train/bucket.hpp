// A bucket of gradients' numbers on its way. First each rank sums its part of them in the order of
// the tree (scatter), then all get all parts (gather). Where each rank has one node, and these are
// the leaves of one perfect tree, both take log2 P steps: neighbours exchange halves of what they
// have and add what comes, as the tree does, and on the way back they double it. Elsewhere each
// rank sends each other its part. Numbers that are sent as they are go from the gradients and come
// into the results, without copies.
#pragma once
#include <memory>

#include "train/tree.hpp"

namespace tete {

// The ranks' sums, and where their numbers go.
struct SumOfRanks {
  int rank;
  TreeOrder order;
  const Division& division;
  // This rank's nodes; the last one's gradients may come while earlier buckets are on their way.
  std::shared_ptr<const std::vector<ShardSum>> nodes;
  Tensors results = {};  // of each parameter, on the processor
  // The pieces of these that are this rank's part, by bucket.
  std::vector<std::vector<Division::Piece>> mine = {};

  size_t nodes_of(int of) const;
};

class Bucket {
 public:
  struct Step {
    std::vector<Message> out, in;
  };
  virtual ~Bucket() = default;
  // The steps, first of the scatter, after which this rank's part is in the results, then of the
  // gather, after which all are.
  virtual int scatter_steps() const = 0;
  virtual int gather_steps() const = 0;
  virtual Step begin(int step) = 0;
  virtual void end(int step) = 0;
};
std::unique_ptr<Bucket> make_bucket(const SumOfRanks& sum, size_t number, Dtype dtype, SendAs send);

}  // namespace tete
