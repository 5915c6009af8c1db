// Runs a program's tile, the statements over queries and memory, in blocks of samples and queries:
// so their values are never stored whole, and one parallel region runs all blocks.
//
// A tile that one kernel computes in linear memory runs uncut (runs_whole in nn/run/attention.cpp).
//
// A block is an ordinary run of the statements inside, on its rows of the values they are given,
// and its gradient is that run's gradient. So no code here depends on a statement: it cuts rows and
// puts results together. Blocks follow from sizes alone, and sums over blocks are added in the
// blocks' order: results do not depend on the number of threads.
#pragma once
#include "core/fused.hpp"
#include "nn/run/runner.hpp"

namespace tete {

// The elements of a value in the whole batch.
double elements_of(const CheckedValue& v, Runner& runner);

// A range of a call's samples and queries.
struct Range {
  Index sample, samples, query, queries;
};
// The blocks that a call is cut into.
struct TileGrid {
  Index samples, queries;  // of the call; 1 sample where it has no batch
  Index block_samples, block_queries;
  Index parts = 1;  // units that the queries of one block of samples are divided among

  Index sample_blocks() const { return pieces_of(samples, block_samples); }
  Index query_blocks() const { return pieces_of(queries, block_queries); }
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

// Chooses the sizes of blocks that `chosen` leaves open. `width`: elements of the widest value for
// each query.
TileGrid grid_of(Index samples, Index queries, double width, const Tiling& chosen,
                 const Pieces& pieces);
// The least number of rows of a strip of the memory, if there are as many; narrow rows are more.
constexpr double least_strip = 64;
// The number of queries in a block, if sizes choose it. `width`: as above.
Index block_queries(double width, Index queries, const Pieces& pieces);

// A value inside that statements outside read: [batch…, n, rest], a dense row for each query.
struct TileExit {
  int value;
  Names names;   // n, then the rest in memory order
  Index offset;  // in the row of all exits
  Index width;
};

// One of the values that a tile's blocks are given. `query` is the position of this axis among its
// dimensions after the batch's, or -1; `memory` has the positions of all memory axes.
struct TileInput {
  int value;
  bool batched;
  int query;
  Axes memory;
  // True if it is a hook's replacement of a value inside; and if that changed the numbers.
  bool replaced = false, changed = false;
};
struct TileInputs {
  std::vector<TileInput> each = {};
  Tensors tensors = {};  // of the whole call
  // True if a hook replaced a value before the tile in which something is hidden; and if that
  // changed the numbers.
  bool replaced = false, changed = false;

  bool any_replaced() const;
  // All inputs but the replacements that did not change the numbers.
  TileInputs changing() const;
};

// The same without parameters and hooks.
Forward inside_tile(const Forward& forward);

// One call's tile. The gradient is taken when the call's Runner is gone, so this class owns all
// that a block needs.
class TiledCall {
 public:
  TiledCall(const SizeTable& sizes, const CallPart& whole, const Forward& forward,
            const std::string& path, const Mask& mask);

  std::vector<TileInput> given = {};
  std::vector<TileExit> exits = {};
  TileGrid grid = {};
  double bytes = 0;           // that blocks store, if they keep their values
  bool stores_pairs = false;  // some of these are over queries and memory
  double made = 0;            // bytes of all values inside
  bool crops = false;  // a block leaves out the memory which the mask hides from all its queries

  const Checked& program() const { return sizes_.program(); }
  Index memory() const { return whole_.block.memories; }
  int batch_rank() const { return whole_.batch.size(); }

  // The shape of a range's exits, side by side in each row: [batch…, n, width].
  Shape shape(const Range& range) const;
  // The work of all blocks, as parallel_for takes it: none where a block fills the device, and
  // blocks side by side only take memory.
  double work() const { return whole_.device->pieces().count > 1 ? made : 0; }
  // True if blocks should keep their values for the gradient, instead of computing them again.
  bool is_worth_keeping(const Tensors& given, const Tiling::Keep& keep) const;
  // A window onto the rows of a range in y, the exits of the whole call.
  Tensor rows(const Tensor& y, const Range& range) const;

  // The number of memory positions, from the first, that a block of this range reads.
  Index seen(const Range& range) const;
  // The part of the given value x that belongs to a range and to these first positions of the
  // memory.
  Tensor part_of(const Tensor& x, const TileInput& axes, const Range& range, Index memory) const;
  Tensors parts_of(const Tensors& all, const Range& range, Index memory) const;
  // Those of the given values that all blocks of queries read whole, or from the first position on.
  Tensors without_queries(const Tensors& all) const;

  // Computes the exits of a range from its parts of the given values.
  Tensor run(const Tensors& parts, const Range& range) const;
  // The same for its gradient, which needs the exits' place in the graph.
  Tensor graph_of(const Tensors& parts, const Range& range) const;
  // Puts the exits of a block's run side by side.
  Tensor collected(Runner& block, const Range& range) const;
  // Computes the exits of the whole call, as one block.
  Tensor run_whole(const Tensors& given) const;

 private:
  friend class TileBlock;
  Tensor exits_of(const Tensors& parts, const Range& range, Index memory) const;
  Shape batch(const Range& range) const;
  Mask mask_of(const Range& range, Index memory) const;
  Forward forward(const Range& range) const;
  SizeTable sizes(const Range& range, Index memory) const;
  CallPart part(const Range& range) const;

  SizeTable sizes_;
  CallPart whole_;
  Forward forward_;  // without parameters and hooks
  std::string path_;
  Mask mask_;
};

// The Runner of one block of a call, with the Forward and the Mask that it refers to.
class TileBlock {
 public:
  // `parts`: those of the given values that belong to the range and this memory.
  TileBlock(const TiledCall& call, const Range& range, Index memory, const Tensors& parts);
  TileBlock(const TileBlock&) = delete;
  Runner& operator*() { return runner_; }
  Runner* operator->() { return &runner_; }

 private:
  Forward forward_;
  Mask mask_;
  Runner runner_;
};

// Computes the exits of the whole call. If `keep` is set, FusedValue::kept has each block's graph.
// `tracked`: true for each given value of which a gradient will be asked.
FusedValue tile_value(const TiledCall& call, const Tensors& given, const std::vector<bool>& tracked,
                      bool keep);
// The gradients of the given values. Blocks that were not kept run again.
Tensors tile_gradient(const TiledCall& call, const Backward& at);

// The parts, with a variable in the place of each that a gradient is asked of.
Tensors leaves_of(const Tensors& parts, const std::vector<bool>& wanted);

}  // namespace tete
