#include "nn/run/tile.hpp"

#include <algorithm>

#include "core/threads.hpp"

namespace tete {

namespace {

// Elements of the widest value in a block: its rows of one tensor are 3 MB then. Fewer than 32
// queries make slow matrix products.
constexpr double block_elements = 786432;
constexpr Index least_queries = 32, query_step = 16;
// Blocks form this many units at least, where there are as many; a unit sums its own gradient.
constexpr Index wanted_units = 8;

// `width`: elements of the widest value, for each query.
TileGrid grid_of(Index samples, Index queries, double width, const Tiling& chosen) {
  TileGrid grid{samples, queries, chosen.samples, chosen.queries};
  if (grid.block_queries == 0) grid.block_queries = block_queries(width, queries);
  if (grid.block_samples == 0) {
    const double sample = width * static_cast<double>(grid.block_queries);
    const auto fitting =
        grid.block_queries < queries ? 1 : static_cast<Index>(block_elements / sample);
    grid.block_samples = std::clamp<Index>(fitting, 1, pieces(samples, wanted_units));
  }
  grid.parts = std::clamp<Index>(wanted_units / grid.sample_blocks(), 1, grid.query_blocks());
  return grid;
}

}  // namespace

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

Tensor TiledCall::rows(const Tensor& y, const Range& range) const {
  const int n = batch_rank();
  const Index sample = n > 0 ? range.sample * y.strides()[0] : 0;
  return y.window(shape(range), y.strides(), sample + range.query * y.strides()[n]);
}

Index TiledCall::seen(const Range& range) const {
  const Index m = memory();
  if (!program().tile.may_crop || !mask_.causal) return m;
  const Stretch& at = whole_.stretch;
  const Index last = at.first_query + range.query + range.queries - at.first_memory;
  return std::clamp(last, std::min<Index>(1, m), m);
}

Tensor TiledCall::part_of(const Tensor& x, const Axes& axes, const Range& range,
                          Index memory) const {
  const int first = axes.batched ? batch_rank() : 0;
  Tensor part = first > 0 ? slice(x, 0, range.sample, range.samples) : x;
  if (axes.query >= 0) part = slice(part, first + axes.query, range.query, range.queries);
  if (axes.memory >= 0) part = slice(part, first + axes.memory, 0, memory);
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
    mask.visible = part_of(mask.visible.detach(), {n > 0, 0, 1}, range, memory);
  }
  return mask;
}

// ---- One block ----------------------------------------------------------------------------------

Tensor TiledCall::run(const Tensors& parts, const Range& range, Index memory,
                      const See& see) const {
  static const Tensors none;
  const Forward forward{.params = none,
                        .training = training_,
                        .dropout = dropout_,
                        .key = key_,
                        .first_sample = first_sample_ + range.sample};
  SizeTable sizes = sizes_;
  sizes.set_lengths(range.queries, memory);
  Runner::Part part = whole_;
  part.batch = batch(range);
  part.stretch.first_query += range.query, part.stretch.query = range.query;
  const Mask mask = mask_of(range, memory);
  Runner runner(sizes, part, forward, path_, mask);
  for (size_t i = 0; i < parts.size(); ++i) runner.set(program().tile.given[i], parts[i]);
  if (see)
    for (int number : program().tile.inside) see(number, runner.at(number));
  Tensors made;
  for (const TileExit& exit : exits) {
    const Value v = runner.aligned(runner.at(exit.value), exit.names, batch_rank() > 0);
    Shape row = batch(range);
    row.push_back(range.queries), row.push_back(exit.width);
    made.push_back(reshape(v.tensor, row));
  }
  return made.size() == 1 ? made[0] : concat(made, made[0].rank() - 1);
}

// ---- All blocks ---------------------------------------------------------------------------------

Tensors leaves_of(const Tensors& parts, const std::vector<bool>& wanted) {
  Tensors leaves;
  for (size_t i = 0; i < parts.size(); ++i)
    leaves.push_back(wanted[i] && is_real(parts[i].dtype()) ? parts[i].variable() : parts[i]);
  return leaves;
}

FusedValue tile_value(const TiledCall& call, const Tensors& given, const std::vector<bool>& tracked,
                      bool keep) {
  const Tensor y = Tensor::empty(call.shape(call.grid.whole()), given[0].dtype());
  const size_t each = keep ? given.size() + 1 : 0;  // its rows, and what they are made from
  Tensors kept(static_cast<size_t>(call.grid.blocks()) * each);
  parallel_for(call.grid.blocks(), call.bytes, [&](Index block) {
    const RecordWatch unseen([](const Tensor& made) { return made; });
    const Range range = call.grid.block(block);
    const Index memory = call.seen(range);
    Tensors parts = call.parts_of(given, range, memory);
    if (keep) parts = leaves_of(parts, tracked);
    const Tensor made = call.run(parts, range, memory);
    copy_onto(made.detach(), call.rows(y, range));
    if (!keep) return;
    const size_t at = static_cast<size_t>(block) * each;
    kept[at] = made;
    std::move(parts.begin(), parts.end(), kept.begin() + static_cast<Index>(at + 1));
  });
  return {y, kept};
}

// ---- In a run -----------------------------------------------------------------------------------

namespace {

int role_axis(const Checked& program, const Names& names, Role role) {
  for (int i = 0; i < names.size(); ++i)
    if (program.dimensions[static_cast<size_t>(names[i])].role == role) return i;
  return -1;
}

// n, then the rest as it lies in memory.
Names exit_names(const Checked& program, const CheckedValue& v) {
  const int query = v.dims[role_axis(program, v.dims, Role::query)];
  Names names{query};
  for (int i = 0; i < v.dims.size(); ++i) {
    const int name = v.dims == v.names ? v.names[v.layout[i]] : v.dims[i];
    if (name != query) names.push_back(name);
  }
  return names;
}

}  // namespace

Index Runner::length(Role role) {
  for (size_t i = 0; i < program_.dimensions.size(); ++i)
    if (program_.dimensions[i].role == role) return size(static_cast<int>(i));
  return 0;
}

double Runner::elements_of(const CheckedValue& v) {
  double count = 1;
  for (Index size : shape_of(v.dims, true)) count *= static_cast<double>(size);
  return count;
}

bool Runner::tiles() {
  const Tiling& chosen = forward_.tiling;
  if (!chosen.allowed || program_.tile.inside.empty() || program_.tile.given.empty()) return false;
  for (int number : program_.tile.inside)
    if (elements_of(checked(number)) == 0) return false;
  if (mask_.visible) {  // another shape is an error that the whole run points out
    Shape pairs = mask_.visible.rank() > 2 ? batch_ : Shape{};
    pairs.push_back(length(Role::query)), pairs.push_back(length(Role::memory));
    if (!(mask_.visible.shape() == pairs)) return false;
  }
  const bool on_processor = !inputs_->empty() && &(*inputs_)[0].backend() == &cpu();
  return on_processor && (chosen.queries > 0 || chosen.samples > 0 || tile_grid().blocks() > 1);
}

TileGrid Runner::tile_grid() {
  double widest = 0;
  for (int number : program_.tile.inside) widest = std::max(widest, elements_of(checked(number)));
  const Index samples = batch_.empty() ? 1 : batch_[0], queries = length(Role::query);
  return grid_of(samples, queries, widest / static_cast<double>(samples * queries),
                 forward_.tiling);
}

void Runner::run_tile() {
  const Tile& tile = program_.tile;
  Part whole{batch_, dtype_, stretch_};
  whole.stretch.queries = length(Role::query), whole.stretch.memories = length(Role::memory);
  const auto call = std::make_shared<TiledCall>(sizes_, whole, forward_, path_, mask_);
  call->grid = tile_grid();
  Tensors given;
  std::vector<bool> tracked;
  bool any_tracked = false;
  for (int number : tile.given) {
    const Value& v = at(number);
    given.push_back(v.tensor);
    tracked.push_back(v.tensor.tracked());
    any_tracked |= v.tensor.tracked();
    call->given.push_back({v.batched, role_axis(program_, v.names, Role::query),
                           role_axis(program_, v.names, Role::memory)});
  }
  Index offset = 0;
  for (int number : tile.exits) {
    TileExit exit{number, exit_names(program_, checked(number)), offset, 1};
    for (int i = 1; i < exit.names.size(); ++i) exit.width *= size(exit.names[i]);
    offset += exit.width;
    call->exits.push_back(exit);
  }
  for (int number : tile.inside)
    call->bytes += elements_of(checked(number)) * static_cast<double>(size_of(dtype_));
  const bool keep = any_tracked && call->bytes <= forward_.tiling.keep_bytes;
  const Fused op{
      .name = "tile",
      .value = [&](const Tensors& in) { return tile_value(*call, in, tracked, keep); },
      .gradient = [call](const Backward& at) { return tile_gradient(*call, at); },
      .meaning =
          [call](const Tensors& in) { return call->run(in, call->grid.whole(), call->memory()); }};
  const Tensor y = fused(op, given);
  for (const TileExit& exit : call->exits) {
    Shape shape = shape_of(exit.names, !batch_.empty());
    const Tensor rows = slice(y, y.rank() - 1, exit.offset, exit.width);
    const Value v{reshape(rows, shape), exit.names, !batch_.empty()};
    values_[static_cast<size_t>(exit.value)] = aligned(v, checked(exit.value).dims, v.batched);
  }
  if (forward_.watch) show_tile(*call, given);
}

// What a block leaves out or does not keep is computed once more, for whoever looks.
void Runner::show_tile(const TiledCall& call, const Tensors& given) {
  Tensors in;
  for (const Tensor& x : given) in.push_back(x.detach());
  for (Index block = 0; block < call.grid.blocks(); ++block) {
    const Range range = call.grid.block(block);
    const auto show = [&](int number, const Value& part) {
      Value& all = values_[static_cast<size_t>(number)];
      if (std::count(program_.tile.exits.begin(), program_.tile.exits.end(), number) > 0) return;
      if (!checked(number).watched) return;
      if (!all.tensor)
        all = {Tensor::empty(shape_of(part.names, part.batched), dtype_), part.names, part.batched};
      const TiledCall::Axes axes{part.batched, role_axis(program_, part.names, Role::query), -1};
      copy_onto(part.tensor.detach(), call.part_of(all.tensor, axes, range, call.memory()));
    };
    call.run(call.parts_of(in, range, call.memory()), range, call.memory(), show);
  }
}

}  // namespace tete
