// The one order in which a run adds the gradients of a step.
//
// A step's batch is cut into G logical shards, the leaves of one balanced binary tree: the node
// over leaves [a, b) is the sum of the nodes over [a, m) and [m, b), m = (a + b)/2. Rank r of P
// owns leaves [G·r/P, G·(r+1)/P). It adds the largest nodes that lie in its range; each rank
// finishes the tree for its part of all numbers, and tells the others. So the bits of a sum depend
// on G only, never on P.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "core/tensor.hpp"
#include "train/division.hpp"

namespace tete {

// A node of the tree: what a shard, or a sum of shards, found.
struct ShardSum {
  Tensor loss = {};  // f64[]: summed over tokens
  int64_t tokens = 0;
  Tensors grads = {};  // of the loss sum; an empty Tensor where no gradient reached a parameter
};

// Told of each gradient as soon as it is final, while others are still to be computed. A leaf need
// not do it: what it returns counts.
using OnReady = std::function<void(size_t parameter, const Tensor& gradient)>;

// How gradients are sent.
enum class SendAs { exact, bf16 };

// The sum over all shards, the same bits on every rank. `leaf(g, ready)` computes shard g; it is
// called for this rank's shards only, in their order. `layouts` has a tensor of each gradient's
// shape, dtype and strides (the parameters), or an empty one for a parameter that gets none. With
// SendAs::bf16 the bits depend on the number of ranks, too.
//
// A rank sends (k+1)·(P-1)/P times the gradient's bytes, where k is the number of its nodes, and
// holds at most log2(shards) + 2 gradients at a time.
//
// If `parts` are given, and there is more than one rank, it sends k·(P-1)/P times those bytes: each
// gradient then has one dimension, with the numbers that this rank has a part in, in their order,
// on the processor.
ShardSum tree_sum(Comm& comm, int shards, const Tensors& layouts,
                  const std::function<ShardSum(int shard, const OnReady& ready)>& leaf,
                  SendAs send = SendAs::exact, const Division* parts = nullptr);

// The same sum as soon as this rank knows its part of it; the others' come when they are asked for.
class ArrivingSum {
 public:
  ArrivingSum(Comm& comm, int shards, const Tensors& layouts,
              const std::function<ShardSum(int shard, const OnReady& ready)>& leaf,
              SendAs send = SendAs::exact, const Division* parts = nullptr);
  ~ArrivingSum();  // the rank has failed if gradients are still on their way
  ArrivingSum(ArrivingSum&&) noexcept;
  ArrivingSum& operator=(ArrivingSum&&) = delete;

  // Which gradients there are is known, but their numbers only once they were waited for.
  const ShardSum& total() const { return total_; }
  // The loss and Σ x² of each gradient, 0 where there is none, with the same bits on every rank.
  // All ranks ask together.
  struct Numbers {
    double loss;
    std::vector<double> squares;
  };
  Numbers numbers() const;

  // Lets all parts come, the first parameters' first. Waiting does so, too.
  void gather();
  void wait(size_t parameter);
  void wait();
  // Waits for a gradient and gives it away.
  Tensor take(size_t parameter);

 private:
  struct OnTheWay;
  std::unique_ptr<OnTheWay> on_the_way_;  // null if nothing is
  ShardSum total_;
};

// The first shard that a rank owns; the next rank's is where its range ends.
int first_shard(int rank, int ranks, int shards);

// The tree as ranks see it.
struct TreeOrder {
  struct Node {
    int begin, end, rank;
  };
  std::vector<Node> nodes;    // the largest that lie in one rank's range, from left to right
  std::vector<bool> is_leaf;  // how they are added: true takes the next, false adds the last two
  // True if the nodes are the leaves of one perfect tree, one of each rank.
  bool is_perfect(int ranks) const;
};
TreeOrder tree_order(int ranks, int shards);

}  // namespace tete
