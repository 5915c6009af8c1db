// A run's tile: the inputs and exits of its blocks, and the hooks on values inside.
//
// A hook that replaces a value inside cuts the tile there: blocks compute the value, the hook is
// given all of it, and blocks that are given the replacement compute the rest. If the replacement
// has the same numbers, the rest is computed as without the hook, so no bit changes; the gradient
// goes through the hook all the same.
#include <algorithm>
#include <cstring>

#include "nn/tile/tile.hpp"

namespace tete {

namespace {

int role_axis(const Checked& program, const Names& names, Role role) {
  for (int i = 0; i < names.size(); ++i)
    if (program.dimensions[names[i]].role == role) return i;
  return -1;
}

TileInput input_of(const Checked& program, int number, const Value& v) {
  Axes memory;
  for (int i = 0; i < v.names.size(); ++i)
    if (program.dimensions[v.names[i]].role == Role::memory) memory.push_back(i);
  return {number, v.batched, role_axis(program, v.names, Role::query), memory};
}

// n, then the rest in memory order.
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

bool same_numbers(const Tensor& a, const Tensor& b) {
  if (a.same(b)) return true;
  const std::vector<double> x = a.values(), y = b.values();
  return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

bool TileInputs::any_replaced() const {
  return replaced ||
         std::any_of(each.begin(), each.end(), [](const TileInput& in) { return in.replaced; });
}

TileInputs TileInputs::changing() const {
  TileInputs some{.replaced = changed, .changed = changed};
  for (size_t i = 0; i < each.size(); ++i)
    if (!each[i].replaced || each[i].changed)
      some.each.push_back(each[i]), some.tensors.push_back(tensors[i]);
  return some;
}

double elements_of(const CheckedValue& v, Runner& runner) {
  double count = 1;
  for (Index size : runner.shape_of(v.dims, true)) count *= static_cast<double>(size);
  return count;
}

Index Runner::length(Role role) {
  for (size_t i = 0; i < program_.dimensions.size(); ++i)
    if (program_.dimensions[i].role == role) return size(static_cast<int>(i));
  return 0;
}

// True if blocks can cut the value as they cut X and M: a called def may take a memory as X, and
// another name of X's sequence is as long as that, not as M.
bool Runner::is_as_long(int number) {
  for (int dim : checked(number).dims)
    for (Role role : {Role::query, Role::memory})
      if (dimension(dim).role == role && size(dim) != length(role)) return false;
  return true;
}

bool Runner::tiles() {
  const Tiling& chosen = forward_.tiling;
  if (!chosen.allowed || program_.tile.inside.empty() || program_.tile.given.empty()) return false;
  for (int i = 0; i < std::ssize(values_); ++i)
    if (checked(i).strips >= 0 && (is_replaced(i) || !is_as_long(i))) return false;
  for (int number : program_.tile.inside)
    if (elements_of(checked(number), *this) == 0 || !is_as_long(number)) return false;
  for (int number : program_.tile.given)
    if (!is_as_long(number)) return false;
  if (mask_.visible) {  // on a wrong shape, the run without a tile throws the error
    Shape pairs = mask_.visible.rank() > 2 ? batch_ : Shape{};
    pairs.push_back(length(Role::query)), pairs.push_back(length(Role::memory));
    if (!(mask_.visible.shape() == pairs)) return false;
  }
  return chosen.is_asked() || tile_grid().blocks() > 1;
}

bool Runner::stores_pairs(int number, const std::optional<double>& instead) const {
  return instead ? *instead > 0 : program_.is_over(checked(number).dims, Role::memory);
}

TileGrid Runner::tile_grid() {
  const Index samples = batch_.empty() ? 1 : batch_[0], queries = length(Role::query);
  const double rows = static_cast<double>(samples * queries);
  double widest = 0;
  bool has_pairs = false;
  for (int number : program_.tile.inside) {
    const std::optional<double> instead = stored_instead(number);
    const int strips = checked(number).strips;
    const double in_strip = strips < 0 ? 1 : static_cast<double>(size(program_.strips[strips].dim)),
                 share = strips < 0 ? 1 : std::min(1.0, least_strip / in_strip);
    widest =
        std::max(widest, instead ? *instead : elements_of(checked(number), *this) * share / rows);
    has_pairs |= stores_pairs(number, instead);
  }
  Pieces pieces = device_->pieces();
  if (!has_pairs)
    pieces.rows =
        std::max(pieces.rows, pieces_of(queries, std::max<Index>(1, pieces.count / samples)));
  return grid_of(samples, queries, widest, forward_.tiling, pieces);
}

TiledCall Runner::tiled_call(const TileInputs& inputs, const std::vector<int>& exits) {
  CallPart whole = part();
  whole.block = {.queries = length(Role::query),
                 .memories = length(Role::memory),
                 .rows = forward_.tiling.queries};
  TiledCall call(sizes_, whole, forward_, path_, mask_);
  call.grid = tile_grid();
  call.given = inputs.each;
  bool over_memory = false;
  Index offset = 0;
  for (int number : exits) {
    TileExit exit{number, exit_names(program_, checked(number)), offset, 1};
    for (int i = 1; i < exit.names.size(); ++i) exit.width *= size(exit.names[i]);
    offset += exit.width;
    over_memory |= role_axis(program_, exit.names, Role::memory) >= 0;
    call.exits.push_back(exit);
  }
  const double size = static_cast<double>(size_of(dtype_)),
               rows = static_cast<double>(call.grid.samples * call.grid.queries);
  for (int number : program_.tile.inside) {
    if (checked(number).strips >= 0) continue;
    const double all = elements_of(checked(number), *this) * size;
    const std::optional<double> instead = stored_instead(number);
    call.bytes += instead ? *instead * rows * size : all;
    call.stores_pairs |= stores_pairs(number, instead);
    call.made += all;
  }
  // A replacement may let queries read memory that the mask hides.
  call.crops = program_.tile.may_crop && mask_.causal && !mask_.apart && !over_memory &&
               !inputs.any_replaced();
  return call;
}

// Runs the blocks; returns the exits, [batch…, dims] each.
std::vector<Value> Runner::run_blocks(const TileInputs& inputs, const std::vector<int>& exits) {
  const auto call = std::make_shared<const TiledCall>(tiled_call(inputs, exits));
  const TileInputs changing = inputs.changing();
  const bool all =
      changing.each.size() == inputs.each.size() && changing.replaced == inputs.replaced;
  const TiledCall made = all ? *call : tiled_call(changing, exits);
  std::vector<bool> tracked;
  for (const Tensor& x : changing.tensors) tracked.push_back(x.tracked());
  const bool any_tracked = std::find(tracked.begin(), tracked.end(), true) != tracked.end();
  const bool keep =
      all && any_tracked && call->is_worth_keeping(inputs.tensors, forward_.tiling.keep);
  const Fused op{.name = "tile",
                 .value =
                     [&](const Tensors& in) {
                       Tensors given;
                       for (size_t i = 0; i < in.size(); ++i)
                         if (!inputs.each[i].replaced || inputs.each[i].changed)
                           given.push_back(in[i]);
                       return tile_value(made, given, tracked, keep);
                     },
                 .gradient = [call](const Backward& at) { return tile_gradient(*call, at); },
                 .meaning = [call](const Tensors& in) { return call->run_whole(in); },
                 .saved = saves_inputs};
  const Tensor y = fused(op, inputs.tensors);
  std::vector<Value> values;
  for (const TileExit& exit : call->exits) {
    const Tensor rows = slice(y, y.rank() - 1, exit.offset, exit.width);
    const Value v{reshape(rows, shape_of(exit.names, !batch_.empty())), exit.names,
                  !batch_.empty()};
    values.push_back(aligned(v, checked(exit.value).dims, v.batched));
  }
  return values;
}

void Runner::run_tile() {
  TileInputs inputs;
  for (int number : program_.tile.given) {
    inputs.each.push_back(input_of(program_, number, at(number)));
    inputs.tensors.push_back(at(number).tensor);
  }
  inputs.replaced = replaced_hidden_, inputs.changed = changed_hidden_;
  if (is_one_kernel()) run_one_kernel();
  else cut_tile(inputs);
  if (forward_.watch) show_tile(inputs);
}

bool Runner::is_one_kernel() {
  const std::vector<int>& inside = program_.tile.inside;
  const int exit = inside.back(), number = checked(exit).right.fusion;
  if (number < 0 || forward_.tiling.is_asked()) return false;
  const Fusion& fusion = program_.fusions[number];
  const auto computes = [&](int i) { return i == exit || checked(i).fusion == number; };
  return std::all_of(inside.begin(), inside.end(), computes) && runs(fusion) &&
         fusion.row->runs_whole && fusion.row->runs_whole(*this, fusion);
}

// Not by at(), as run() shows the values of a tile to those who look.
void Runner::run_one_kernel() {
  const int exit = program_.tile.inside.back();
  Value& made = values_[exit] = statement(checked(exit));
  if (is_replaced(exit)) made.tensor = forward_.replacement(path_of(checked(exit)), made.tensor);
}

void Runner::cut_tile(TileInputs& inputs) {
  for (int number : program_.tile.inside)
    if (is_replaced(number)) replace_in_tile(number, inputs);
  std::vector<int> exits;
  for (int number : program_.tile.exits)
    if (!has(number)) exits.push_back(number);
  if (exits.empty()) return;
  const std::vector<Value> made = run_blocks(inputs, exits);
  for (size_t i = 0; i < exits.size(); ++i) values_[exits[i]] = made[i];
}

void Runner::replace_in_tile(int number, TileInputs& inputs) {
  Value made = run_blocks(inputs, {number})[0];
  const TiledCall call = tiled_call(inputs, {});
  const Range first = call.grid.block(0);
  Tensors in;
  for (const Tensor& x : inputs.tensors) in.push_back(x.detach());
  TileBlock block(call, first, call.memory(), call.parts_of(in, first, call.memory()));
  made.batched = block->at(number).batched;
  if (!made.batched) {  // all samples have the same value
    for (int axis = 0; axis < batch_rank(); ++axis) made.tensor = slice(made.tensor, axis, 0, 1);
    made.tensor = reshape(made.tensor, shape_of(made.names, false));
  }
  const Tensor other = forward_.replacement(path_of(checked(number)), made.tensor);
  TileInput input = input_of(program_, number, made);
  input.replaced = true, input.changed = !same_numbers(made.tensor, other);
  inputs.each.push_back(input), inputs.tensors.push_back(other);
  values_[number] = {other, made.names, made.batched};
}

// Computes once more, for watchers, the values that blocks crop or do not keep.
void Runner::show_tile(const TileInputs& inputs) {
  std::vector<int> asked;
  for (int number : program_.tile.inside)
    if (!has(number) && is_watched(number)) asked.push_back(number);
  if (asked.empty()) return;
  const TiledCall call = tiled_call(inputs, {});
  Tensors in;
  for (const Tensor& x : inputs.tensors) in.push_back(x.detach());
  for (Index at = 0; at < call.grid.blocks(); ++at) {
    const Range range = call.grid.block(at);
    TileBlock block(call, range, call.memory(), call.parts_of(in, range, call.memory()));
    for (int number : asked) {
      const Value& part = block->at(number);
      Value& all = values_[number];
      if (!all.tensor)
        all = {Tensor::empty(shape_of(part.names, part.batched), dtype_, device()), part.names,
               part.batched};
      TileInput rows = input_of(program_, number, part);
      rows.memory = {};
      copy_onto(part.tensor.detach(), call.part_of(all.tensor, rows, range, call.memory()));
    }
  }
}

}  // namespace tete
