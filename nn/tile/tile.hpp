// A program's tile at work: one call's statements over queries and memory, a block of samples and
// queries at a time, so what they make is never there as a whole, and one parallel region does it.
//
// A block is an ordinary run of the statements inside, on its rows of what they are given, and its
// gradient is that run's gradient. So nothing here knows a statement: rows are cut, and results are
// put together. Blocks follow from sizes alone, and what is summed over blocks is added in their
// order: results do not depend on the number of threads.
#pragma once
#include "core/fused.hpp"
#include "nn/run/runner.hpp"

namespace tete {

// The number of blocks of `size` rows, the last of which may be smaller.
inline Index blocks_of(Index rows, Index size) { return (rows + size - 1) / size; }

// Samples and queries of a call.
struct Range {
  Index sample, samples, query, queries;
};
// How a call is cut.
struct TileGrid {
  Index samples, queries;  // of the call; 1 sample where it has no batch
  Index block_samples, block_queries;
  Index parts = 1;  // into which the queries of a block of samples are cut, for units

  Index sample_blocks() const { return blocks_of(samples, block_samples); }
  Index query_blocks() const { return blocks_of(queries, block_queries); }
  Index blocks() const { return sample_blocks() * query_blocks(); }
  Index units() const { return sample_blocks() * parts; }
  // Unit u has the blocks first_block(u) … first_block(u + 1) - 1.
  Index first_block(Index unit) const {
    return unit / parts * query_blocks() + unit % parts * query_blocks() / parts;
  }
  Range block(Index number) const {
    const Index sample = number / query_blocks() * block_samples,
                query = number % query_blocks() * block_queries;
    return {sample, std::min(block_samples, samples - sample), query,
            std::min(block_queries, queries - query)};
  }
  Range whole() const { return {0, samples, 0, queries}; }
};

// `width`: elements of the widest value, for each query.
TileGrid grid_of(Index samples, Index queries, double width, const Tiling& chosen);
// How many queries a block has, as sizes suggest. `width`: elements of the widest value for each.
Index block_queries(double width, Index queries);

// What one statement outside reads: [batch…, n, rest], a dense row for each query.
struct TileExit {
  int value;
  Names names;   // n, then the rest as it lies in memory
  Index offset;  // in the row of all exits
  Index width;
};

// One of the values that a tile's blocks are given, and how it lies: axes of its dimensions after
// the batch's, or -1.
struct TileInput {
  int value;
  bool batched;
  int query, memory;
  // What a hook put in the place of a value inside; and whether its numbers are others.
  bool replaced = false, changed = false;
};
struct TileInputs {
  std::vector<TileInput> each = {};
  Tensors tensors = {};  // of the whole call

  bool any_replaced() const;
  // Without what a hook put there that holds the same numbers.
  TileInputs changing() const;
};

// One call's tile. The gradient is taken when its runner is gone, so it keeps what a block needs.
class TiledCall {
 public:
  TiledCall(const SizeTable& sizes, const Runner::Part& whole, const Forward& forward,
            const std::string& path, const Mask& mask);

  std::vector<TileInput> given = {};
  std::vector<TileExit> exits = {};
  TileGrid grid = {};
  double bytes = 0;    // of all values inside, if each were stored whole
  bool crops = false;  // a block leaves out the memory that the causal mask hides from all of it

  const Checked& program() const { return sizes_.program(); }
  Index memory() const { return whole_.stretch.memories; }
  int batch_rank() const { return whole_.batch.size(); }

  // The exits of a range side by side: [batch…, n, width].
  Shape shape(const Range& range) const;
  // Whether what blocks make of `given` for a gradient should stay, and not be made again.
  bool is_worth_keeping(const Tensors& given, const Tiling::Keep& keep) const;
  // The rows of a range of such a tensor of the whole call. A window.
  Tensor rows(const Tensor& y, const Range& range) const;

  // The number of memory positions, from the first, that a block of this range reads.
  Index seen(const Range& range) const;
  // The part of x that a range needs, of which these first positions of the memory are read.
  Tensor part_of(const Tensor& x, const TileInput& axes, const Range& range, Index memory) const;
  Tensors parts_of(const Tensors& all, const Range& range, Index memory) const;

  // The exits of a range, from its parts of what is given.
  Tensor run(const Tensors& parts, const Range& range) const;
  // The exits of a range that a block's run has.
  Tensor collected(Runner& block, const Range& range) const;
  // The exits of all, as one block.
  Tensor run_whole(const Tensors& given) const;

 private:
  friend class TileBlock;
  Tensor exits_of(const Tensors& parts, const Range& range, Index memory) const;
  Shape batch(const Range& range) const;
  Mask mask_of(const Range& range, Index memory) const;
  Forward forward(const Range& range) const;
  SizeTable sizes(const Range& range, Index memory) const;
  Runner::Part part(const Range& range) const;

  SizeTable sizes_;
  Runner::Part whole_;
  bool training_;
  double dropout_;
  Key key_;
  Index first_sample_;
  Products products_;
  std::string path_;
  Mask mask_;
};

// A run of one block of a call, with what it refers to.
class TileBlock {
 public:
  TileBlock(const TiledCall& call, const Range& range, Index memory);
  TileBlock(const TileBlock&) = delete;
  Runner& operator*() { return runner_; }
  Runner* operator->() { return &runner_; }
  void set(const Tensors& parts);

 private:
  const TiledCall& call_;
  Forward forward_;
  Mask mask_;
  Runner runner_;
};

// The exits of the whole call, and where `keep` is set each block's own run. `tracked`: of what is
// given, what a gradient will be asked of.
FusedValue tile_value(const TiledCall& call, const Tensors& given, const std::vector<bool>& tracked,
                      bool keep);
// The gradients of what is given. Blocks that were not kept run again.
Tensors tile_gradient(const TiledCall& call, const Backward& at);

// Of the parts, those that a gradient is asked of as variables.
Tensors leaves_of(const Tensors& parts, const std::vector<bool>& wanted);

}  // namespace tete
