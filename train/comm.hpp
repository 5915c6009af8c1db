// The processes of a run, and the one order in which they add.
//
// A step's batch is cut into G logical shards, the leaves of one balanced binary tree: the node
// over leaves [a, b) is the sum of the nodes over [a, m) and [m, b), m = (a + b)/2. Rank r of P
// owns leaves [G·r/P, G·(r+1)/P). It adds the largest nodes that lie in its range; ranks exchange
// these and each finishes the tree. So the bits of a sum depend on G only, never on P.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/tensor.hpp"

namespace tete {

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Every rank's bytes, in the order of ranks. Called by all ranks together; lengths may differ.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) = 0;
};

// The only process of a run.
Comm& single_process();

// A node of the tree: what a shard, or a sum of shards, found.
struct ShardSum {
  Tensor loss = {};  // f64[]: summed over tokens
  int64_t tokens = 0;
  Tensors grads = {};  // of the loss sum; an empty Tensor where no gradient reached a parameter
};

// The sum over all shards, the same bits on every rank. `leaf(g)` computes shard g; it is called
// for this rank's shards only, in their order. `layouts` has a tensor of each gradient's shape,
// dtype and strides (the parameters). At most log2(shards) + 2 sums are held at a time.
ShardSum tree_sum(Comm& comm, int shards, const Tensors& layouts,
                  const std::function<ShardSum(int shard)>& leaf);

// The first shard that a rank owns; the next rank's is where its range ends.
int first_shard(int rank, int ranks, int shards);

// The largest of every rank's numbers.
int64_t all_max(Comm& comm, int64_t mine);

}  // namespace tete
