#include "nn/tile/tile.hpp"

#include <algorithm>

#include "core/threads.hpp"
#include "core/unchanged.hpp"

namespace tete {

namespace {

// With fewer than 64 queries matrix products are slow, but values over the memory twice must not be
// larger than 128 MB for that.
constexpr double most_elements = 33554432;
constexpr Index least_queries = 64, query_step = 16;

}  // namespace

// Units are as many as there should be pieces, if there are as many blocks; each unit sums its own
// gradient.
TileGrid grid_of(Index samples, Index queries, double width, const Tiling& chosen,
                 const Pieces& pieces) {
  TileGrid grid{samples, queries, chosen.samples, chosen.queries};
  if (grid.block_queries == 0) grid.block_queries = block_queries(width, queries, pieces);
  if (grid.block_samples == 0) {
    const double sample = width * static_cast<double>(grid.block_queries);
    const bool is_cut = grid.block_queries < queries && pieces.count > 1;
    const auto fitting = is_cut ? 1 : static_cast<Index>(pieces.numbers / sample);
    grid.block_samples = std::clamp<Index>(fitting, 1, pieces_of(samples, pieces.count));
  }
  grid.parts = std::clamp<Index>(pieces.count / grid.sample_blocks(), 1, grid.query_blocks());
  return grid;
}

Index block_queries(double width, Index queries, const Pieces& pieces) {
  const auto fitting = static_cast<Index>(pieces.numbers / width) / query_step * query_step;
  const auto affordable = std::max<Index>(1, static_cast<Index>(most_elements / width));
  return std::clamp(fitting, std::min({least_queries, affordable, queries}),
                    std::min(pieces.rows, queries));
}

// ---- Cutting ------------------------------------------------------------------------------------

Forward inside_tile(const Forward& forward) {
  static const Tensors no_params;
  return {.params = no_params,
          .training = forward.training,
          .dropout = forward.dropout,
          .key = forward.key,
          .first_sample = forward.first_sample,
          .products = forward.products};
}

TiledCall::TiledCall(const SizeTable& sizes, const CallPart& whole, const Forward& forward,
                     const std::string& path, const Mask& mask)
    : sizes_(sizes), whole_(whole), forward_(inside_tile(forward)), path_(path), mask_(mask) {}

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
  if (bytes <= keep.least) return true;
  const auto size = static_cast<double>(size_of(tensors[0].dtype()));
  double around = static_cast<double>(element_count(shape(grid.whole()))) * size;
  for (const Tensor& x : tensors) around += static_cast<double>(x.size()) * size;
  return (!stores_pairs || memory() <= keep.length) && bytes <= keep.share * around &&
         static_cast<double>(memory_use(*whole_.device).live) + bytes <=
             std::max(keep.bytes, whole_.device->pieces().kept);
}

Tensor TiledCall::rows(const Tensor& y, const Range& range) const {
  const int n = batch_rank();
  const Index sample = n > 0 ? range.sample * y.strides()[0] : 0;
  return y.window(shape(range), y.strides(), sample + range.query * y.strides()[n]);
}

Index TiledCall::seen(const Range& range) const {
  const Index m = memory();
  if (!crops) return m;
  const FirstRows& at = whole_.first;
  const Index last = at.query + range.query + range.queries - at.memory;
  return std::clamp(last, std::min<Index>(1, m), m);
}

Tensor TiledCall::part_of(const Tensor& x, const TileInput& axes, const Range& range,
                          Index memory) const {
  const int first = axes.batched ? batch_rank() : 0;
  Tensor part = first > 0 ? slice(x, 0, range.sample, range.samples) : x;
  if (axes.query >= 0) part = slice(part, first + axes.query, range.query, range.queries);
  for (int axis : axes.memory) part = slice(part, first + axis, 0, memory);
  return part;
}

Tensors TiledCall::parts_of(const Tensors& all, const Range& range, Index memory) const {
  Tensors parts;
  for (size_t i = 0; i < all.size(); ++i) parts.push_back(part_of(all[i], given[i], range, memory));
  return parts;
}

Mask TiledCall::mask_of(const Range& range, Index memory) const {
  Mask mask = mask_;
  if (mask.lengths && batch_rank() > 0)
    mask.lengths = slice(mask.lengths, 0, range.sample, range.samples);
  if (mask.visible) {
    const int n = mask.visible.rank() - 2;
    mask.visible = part_of(mask.visible.detach(), {-1, n > 0, 0, {1}}, range, memory);
  }
  return mask;
}

Tensors TiledCall::without_queries(const Tensors& all) const {
  Tensors some;
  for (size_t i = 0; i < all.size(); ++i)
    if (given[i].query < 0) some.push_back(all[i]);
  return some;
}

// ---- One block ----------------------------------------------------------------------------------

Forward TiledCall::forward(const Range& range) const {
  Forward forward = forward_;
  forward.first_sample += range.sample;
  return forward;
}

SizeTable TiledCall::sizes(const Range& range, Index memory) const {
  SizeTable sizes = sizes_;
  sizes.set_lengths(range.queries, memory);
  return sizes;
}

CallPart TiledCall::part(const Range& range) const {
  CallPart part = whole_;
  part.batch = batch(range);
  part.first.query += range.query, part.block.query = range.query;
  return part;
}

TileBlock::TileBlock(const TiledCall& call, const Range& range, Index memory, const Tensors& parts)
    : forward_(call.forward(range)),
      mask_(call.mask_of(range, memory)),
      runner_(call.sizes(range, memory), call.part(range), forward_, call.path_, mask_) {
  for (size_t i = 0; i < parts.size(); ++i) runner_.set(call.given[i].value, parts[i]);
}

Tensor TiledCall::run(const Tensors& parts, const Range& range) const {
  return exits_of(parts, range, seen(range));
}

Tensor TiledCall::graph_of(const Tensors& parts, const Range& range) const {
  TileBlock block(*this, range, seen(range), parts);
  if (exits.size() == 1) block->make_only_graph_of(exits[0].value);
  return collected(*block, range);
}

Tensor TiledCall::run_whole(const Tensors& all) const {
  return exits_of(all, grid.whole(), memory());
}

Tensor TiledCall::exits_of(const Tensors& parts, const Range& range, Index memory) const {
  TileBlock block(*this, range, memory, parts);
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

Tensors leaves_of(const Tensors& parts, const std::vector<bool>& wanted) {
  Tensors leaves = parts;
  for (size_t i = 0; i < parts.size(); ++i)
    if (wanted[i] && is_real(parts[i].dtype())) leaves[i] = parts[i].variable();
  return leaves;
}

FusedValue tile_value(const TiledCall& call, const Tensors& given, const std::vector<bool>& tracked,
                      bool keep) {
  const Tensor y =
      Tensor::empty(call.shape(call.grid.whole()), given[0].dtype(), given[0].backend());
  std::vector<Tensors> kept(keep ? static_cast<size_t>(call.grid.blocks()) : 0);
  const Unchanged memory(call.without_queries(given));
  parallel_for(call.grid.blocks(), call.work(), [&](Index block) {
    const Unchanged::Here known(memory);
    const RecordWatch unseen([](const Tensor& made) { return made; });
    const Range range = call.grid.block(block);
    Tensors parts = call.parts_of(given, range, call.seen(range));
    if (keep) parts = leaves_of(parts, tracked);
    const Tensor made = call.run(parts, range);
    copy_onto(made.detach(), call.rows(y, range));
    if (!keep) return;
    Tensors& stays = kept[block];  // the exits' place in the block's graph, then its leaves
    stays.push_back(made.without_storage());
    stays.insert(stays.end(), parts.begin(), parts.end());
  });
  FusedValue value{y};
  for (const Tensors& stays : kept) value.kept.insert(value.kept.end(), stays.begin(), stays.end());
  return value;
}

}  // namespace tete
