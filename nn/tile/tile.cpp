#include "nn/tile/tile.hpp"

#include <algorithm>

#include "core/threads.hpp"
#include "nn/tile/pieces.hpp"

namespace tete {

namespace {

// Elements of the widest value in a block: its rows of one tensor are 3 MB then. Fewer than 64
// queries make slow matrix products.
constexpr double block_elements = 786432;
constexpr Index least_queries = 64, query_step = 16;
// A piece of the memory has so many elements of the widest value, 1.5 MB, and at least so many
// positions. Memory of less than four pieces is not cut.
constexpr double piece_elements = 393216;
constexpr Index least_piece = 128, piece_step = 32, least_pieces = 4;
// Blocks form this many units at least, where there are as many; a unit sums its own gradient.
constexpr Index wanted_units = 8;

// How much of the memory a block of rows takes at a time, or 0. `width`: elements for each
// position.
Index piece_of(double width, Index memory) {
  const auto fitting = static_cast<Index>(piece_elements / width) / piece_step * piece_step;
  const Index piece = std::max(fitting, least_piece);
  return least_pieces * piece <= memory ? piece : 0;
}

}  // namespace

TileGrid grid_of(Index samples, Index queries, Index memory, double width, const Tiling& chosen) {
  TileGrid grid{samples, queries, chosen.samples, chosen.queries};
  if (grid.block_queries == 0) grid.block_queries = block_queries(width, queries);
  if (grid.block_samples == 0) {
    const double sample = width * static_cast<double>(grid.block_queries);
    const auto fitting =
        grid.block_queries < queries ? 1 : static_cast<Index>(block_elements / sample);
    grid.block_samples = std::clamp<Index>(fitting, 1, pieces(samples, wanted_units));
  }
  grid.parts = std::clamp<Index>(wanted_units / grid.sample_blocks(), 1, grid.query_blocks());
  const auto rows = static_cast<double>(grid.block_samples * grid.block_queries);
  grid.piece =
      chosen.memory > 0
          ? chosen.memory
          : piece_of(rows * width / static_cast<double>(std::max<Index>(1, memory)), memory);
  return grid;
}

Index block_queries(double width, Index queries) {
  const auto fitting = static_cast<Index>(block_elements / width) / query_step * query_step;
  return std::clamp(fitting, std::min(least_queries, queries), queries);
}

// ---- Cutting ------------------------------------------------------------------------------------

TiledCall::TiledCall(const SizeTable& sizes, const Runner::Part& whole, const Forward& forward,
                     const std::string& path, const Mask& mask)
    : sizes_(sizes),
      whole_(whole),
      training_(forward.training),
      dropout_(forward.dropout),
      key_(forward.key),
      first_sample_(forward.first_sample),
      products_(forward.products),
      path_(path),
      mask_(mask) {}

Shape TiledCall::batch(const Range& range) const {
  Shape all = whole_.batch;
  if (!all.empty()) all[0] = range.samples;
  return all;
}

Shape TiledCall::shape(const Range& range) const {
  Shape all = batch(range);
  all.push_back(range.queries), all.push_back(exits.back().offset + exits.back().width);
  return all;
}

bool TiledCall::is_worth_keeping(const Tensors& tensors, const Tiling::Keep& keep) const {
  if (goes_back) return false;
  if (bytes <= keep.least) return true;
  const auto size = static_cast<double>(size_of(tensors[0].dtype()));
  double around = static_cast<double>(element_count(shape(grid.whole()))) * size;
  for (const Tensor& x : tensors) around += static_cast<double>(x.size()) * size;
  return memory() <= keep.length && bytes <= keep.share * around &&
         static_cast<double>(memory_use().live) + bytes <= keep.bytes;
}

Tensor TiledCall::rows(const Tensor& y, const Range& range) const {
  const int n = batch_rank();
  const Index sample = n > 0 ? range.sample * y.strides()[0] : 0;
  return y.window(shape(range), y.strides(), sample + range.query * y.strides()[n]);
}

Piece TiledCall::seen(const Range& range) const {
  const Index m = memory();
  if (!crops) return {0, m};
  const Stretch& at = whole_.stretch;
  const Index last = at.first_query + range.query + range.queries - at.first_memory;
  return {0, std::clamp(last, std::min<Index>(1, m), m)};
}

Pieces TiledCall::pieces(const Range& range) const {
  const Index all = seen(range).count;
  const bool cut = in_pieces && grid.piece > 0 && grid.piece < all;
  if (!cut) return {{0, all}};
  Pieces pieces;
  for (Index first = 0; first < all; first += grid.piece)
    pieces.push_back({first, std::min(grid.piece, all - first)});
  return pieces;
}

Tensor TiledCall::part_of(const Tensor& x, const TileInput& axes, const Range& range,
                          const Piece& memory) const {
  const int first = axes.batched ? batch_rank() : 0;
  Tensor part = first > 0 ? slice(x, 0, range.sample, range.samples) : x;
  if (axes.query >= 0) part = slice(part, first + axes.query, range.query, range.queries);
  if (axes.memory >= 0) part = slice(part, first + axes.memory, memory.first, memory.count);
  return part;
}

Parts TiledCall::parts_of(const Tensors& all, const Range& range, const Pieces& memory) const {
  Parts parts(all.size());
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t p = 0; p < (given[i].memory >= 0 ? memory.size() : 1); ++p)
      parts[i].push_back(part_of(all[i], given[i], range, memory[p]));
  return parts;
}

Mask TiledCall::mask_of(const Range& range, const Piece& memory) const {
  Mask mask = mask_;
  if (mask.lengths && batch_rank() > 0)
    mask.lengths = slice(mask.lengths, 0, range.sample, range.samples);
  if (mask.visible) {
    const int n = mask.visible.rank() - 2;
    mask.visible = part_of(mask.visible.detach(), {-1, n > 0, 0, 1}, range, memory);
  }
  // Of some pieces the first query sees the last position, so all see all.
  const Stretch& at = whole_.stretch;
  if (memory.first + memory.count < seen(range).count &&
      at.first_memory + memory.first + memory.count <= at.first_query + range.query + 1)
    mask.causal = false;
  return mask;
}

// ---- One block ----------------------------------------------------------------------------------

Forward TiledCall::forward(const Range& range) const {
  static const Tensors none;
  return {.params = none,
          .training = training_,
          .dropout = dropout_,
          .key = key_,
          .first_sample = first_sample_ + range.sample,
          .products = products_};
}

SizeTable TiledCall::sizes(const Range& range, const Piece& memory) const {
  SizeTable sizes = sizes_;
  sizes.set_lengths(range.queries, memory.count);
  return sizes;
}

Runner::Part TiledCall::stretch(const Range& range, const Piece& memory,
                                const Unread& unread) const {
  Runner::Part part = whole_;
  part.batch = batch(range);
  part.stretch.first_query += range.query, part.stretch.query = range.query;
  part.stretch.first_memory += memory.first, part.stretch.memory = memory.first;
  part.unread = unread;
  return part;
}

TileBlock::TileBlock(const TiledCall& call, const Range& range, const Piece& memory,
                     const Unread& unread)
    : call_(call),
      forward_(call.forward(range)),
      mask_(call.mask_of(range, memory)),
      runner_(call.sizes(range, memory), call.stretch(range, memory, unread), forward_, call.path_,
              mask_) {}

void TileBlock::set(const Parts& parts, size_t piece) {
  for (size_t i = 0; i < parts.size(); ++i)
    runner_.set(call_.given[i].value, parts[i][parts[i].size() > 1 ? piece : 0]);
}

Tensor TiledCall::run(const Parts& parts, const Range& range) const {
  return exits_of(parts, range, pieces(range), {});
}

Tensor TiledCall::run_again(const Parts& parts, const Range& range) const {
  // Nothing inside reads the only exit: what would is on the way to no other.
  Unread last;
  if (exits.size() == 1) last = {&program().values[exits[0].value].right};
  return exits_of(parts, range, pieces(range), last);
}

Tensor TiledCall::run_whole(const Tensors& all) const {
  Parts parts;
  for (const Tensor& x : all) parts.push_back({x});
  return exits_of(parts, grid.whole(), whole_memory(), {});
}

Tensor TiledCall::exits_of(const Parts& parts, const Range& range, const Pieces& pieces,
                           const Unread& unread) const {
  if (pieces.size() > 1) return collected(PieceRun(*this, parts, range, pieces).run(unread), range);
  TileBlock block(*this, range, pieces[0], unread);
  block.set(parts);
  return collected(*block, range);
}

Tensor TiledCall::collected(Runner& block, const Range& range) const {
  Tensors made;
  for (const TileExit& exit : exits) {
    const Value v = block.aligned(block.at(exit.value), exit.names, batch_rank() > 0);
    Shape row = batch(range);
    row.push_back(range.queries), row.push_back(exit.width);
    made.push_back(reshape(v.tensor, row));
  }
  return made.size() == 1 ? made[0] : concat(made, made[0].rank() - 1);
}

// ---- All blocks ---------------------------------------------------------------------------------

Parts leaves_of(const Parts& parts, const std::vector<bool>& wanted) {
  Parts leaves = parts;
  for (size_t i = 0; i < parts.size(); ++i)
    for (Tensor& x : leaves[i])
      if (wanted[i] && is_real(x.dtype())) x = x.variable();
  return leaves;
}

FusedValue tile_value(const TiledCall& call, const Tensors& given, const std::vector<bool>& tracked,
                      bool keep) {
  const Tensor y = Tensor::empty(call.shape(call.grid.whole()), given[0].dtype());
  std::vector<Tensors> kept(keep ? static_cast<size_t>(call.grid.blocks()) : 0);
  parallel_for(call.grid.blocks(), call.bytes, [&](Index block) {
    const RecordWatch unseen([](const Tensor& made) { return made; });
    const Range range = call.grid.block(block);
    Parts parts = call.parts_of(given, range, call.pieces(range));
    if (keep) parts = leaves_of(parts, tracked);
    const Tensor made = call.run(parts, range);
    copy_onto(made.detach(), call.rows(y, range));
    if (!keep) return;
    Tensors& stays = kept[block];  // where its rows are in its graph, and leaves
    stays.push_back(made.without_storage());
    for (const Tensors& part : parts) stays.insert(stays.end(), part.begin(), part.end());
  });
  FusedValue value{y};
  for (const Tensors& stays : kept) value.kept.insert(value.kept.end(), stays.begin(), stays.end());
  return value;
}

}  // namespace tete
