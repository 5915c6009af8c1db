#include "nn/decode.hpp"

#include <algorithm>

#include "nn/run/runner.hpp"

namespace tete {

namespace {

bool is_windows(const Node& node) {
  return node.kind == Node::Kind::call && calls(node, "windows");
}

}  // namespace

Decoder::Decoder(std::shared_ptr<const Checked> program, const SizeTable& sizes, Growth growth)
    : program_(std::move(program)),
      sizes_(sizes),
      growth_(growth),
      pieces_(memory_pieces(*program_)) {
  classify();
  if (growth_ == Growth::grows) check_growth();
}

// ---- Dependences --------------------------------------------------------------------------------

bool Decoder::has_role(const CheckedValue& v, Role role) const {
  const auto fits = [&](int dim) {
    const bool piece = std::find(pieces_.begin(), pieces_.end(), dim) != pieces_.end();
    return program_->dimensions[dim].role == role || (role == Role::memory && piece);
  };
  return std::any_of(v.dims.begin(), v.dims.end(), fits) ||
         std::any_of(v.names.begin(), v.names.end(), fits);
}

Decoder::Side Decoder::side_of(int number) const {
  const CheckedValue& v = program_->values[number];
  const bool queries = has_role(v, Role::query), memory = has_role(v, Role::memory);
  switch (v.kind) {
    case CheckedValue::Kind::parameter:
      return Side::once;
    case CheckedValue::Kind::input:
      return queries ? Side::query : Side::memory;
    case CheckedValue::Kind::same: {
      const Side of = sides_[v.index];
      return of == Side::query && memory && !queries ? Side::memory : of;  // M is X
    }
    case CheckedValue::Kind::statement:
      break;
  }
  bool on_queries = false, on_memory = false, on_mixed = false;
  for (int used : v.uses) {
    const Side side = sides_[used];
    on_queries |= side == Side::query, on_memory |= side == Side::memory;
    on_mixed |= side == Side::mixed;
  }
  // A value over both axes has a row for each query, even if it depends on no input.
  if (on_mixed || (queries && memory) || (on_queries && on_memory)) return Side::mixed;
  if (on_queries || queries) return Side::query;
  return on_memory || memory ? Side::memory : Side::once;
}

// Caches each value of side memory or once that is the result or that a value of another side
// reads. Parameters need no cache.
void Decoder::classify() {
  const auto count = static_cast<int>(program_->values.size());
  for (int i = 0; i < count; ++i) sides_.push_back(side_of(i));
  const auto is_kept = [&](int number) {
    const Side side = sides_[number];
    const bool parameter = program_->values[number].kind == CheckedValue::Kind::parameter;
    return !parameter && (side == Side::memory || side == Side::once);
  };
  std::vector<bool> kept(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const Side side = sides_[i];
    for (int used : program_->values[i].uses)
      if (is_kept(used) && side != Side::once && side != sides_[used]) kept[used] = true;
  }
  if (is_kept(program_->result)) kept[program_->result] = true;
  for (int i = 0; i < count; ++i)
    if (kept[i]) frontier_.push_back(i);
}

std::vector<std::string> Decoder::kept() const {
  std::vector<std::string> names;
  for (int i : frontier_) names.push_back(program_->values[i].name);
  return names;
}

// ---- Refusals -----------------------------------------------------------------------------------

void Decoder::check_growth() const {
  if (!program_->takes_mask)
    bad_input("'", program_->name,
              "' cannot read a sequence position by position: no statement of ",
              "it takes a causal mask");
  if (!program_->leak.empty()) throw Error(Kind::input, program_->leak);
  for (size_t i = 0; i < sides_.size(); ++i) {
    const CheckedValue& v = program_->values[i];
    if (v.kind == CheckedValue::Kind::same && sides_[i] == Side::mixed &&
        !has_role(v, Role::query) && has_role(v, Role::memory))
      fail_at({v.place}, text("'", v.name, "' is a memory made of what attention gave, so it ",
                              "cannot be read position by position"));
    if (v.kind == CheckedValue::Kind::statement && sides_[i] == Side::memory &&
        !has_role(v, Role::memory))
      fail_at({v.place}, text("'", v.name, "' is made of the whole memory, so the sequence cannot ",
                              "be read position by position"));
    visit(v.right, [&](const Node& node) {
      if (is_windows(node)) check_windows(node, sides_[i]);
    });
  }
}

void Decoder::check_windows(const Node& node, Side side) const {
  const Role role = program_->dimensions[node.dim()].role;
  if (role == Role::query && side == Side::mixed)
    fail_at({node.place},
            "windows over the queries of what depends on the memory, too, cannot be "
            "read position by position");
}

// ---- The next positions -------------------------------------------------------------------------

SizeTable Decoder::sizes_for(Index queries, Index memories) const {
  SizeTable sizes = sizes_;
  sizes.set_lengths(queries, memories);
  sizes.set_causal(growth_ == Growth::grows);
  return sizes;
}

// The sizes of a run whose memory has the new positions only. Dimensions of windows over the memory
// count the windows that the new positions complete.
SizeTable Decoder::sizes_of_new_memory(Index queries) const {
  SizeTable sizes = sizes_for(queries, queries);
  SizeTable before = sizes_for(queries, memory_length_);
  SizeTable after = sizes_for(queries, memory_length_ + queries);
  for (int piece : pieces_) sizes.set(piece, after.size(piece) - before.size(piece));
  return sizes;
}

void Decoder::append(int number, const Tensor& rows, bool batched) {
  Tensor& kept = cache_[number];
  const CheckedValue& v = program_->values[number];
  int axis = -1;
  for (int i = 0; i < v.dims.size(); ++i) {
    const int dim = v.dims[i];
    const bool piece = std::find(pieces_.begin(), pieces_.end(), dim) != pieces_.end();
    if (piece || program_->dimensions[dim].role == Role::memory) axis = i;
  }
  const int batch = batched ? rows.rank() - v.dims.size() : 0;
  kept = kept && axis >= 0 ? concat({kept, rows}, batch + axis) : rows;
}

Tensor Decoder::next(const Tensors& inputs, std::span<const ParamId> params, const Forward& forward,
                     const std::string& path, const Mask& mask) {
  Index queries = -1, memories = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const CheckedValue& v = program_->values[program_->inputs[i]];
    for (int k = 0; k < v.dims.size(); ++k) {
      const Role role = program_->dimensions[v.dims[k]].role;
      const Index size = inputs[i].size(inputs[i].rank() - v.dims.size() + k);
      if (role == Role::query) queries = size;
      if (role == Role::memory) memories = size;
    }
  }
  const bool grows = growth_ == Growth::grows;
  if (queries < 0) bad_input("'", program_->name, "' has no queries to read position by position");
  if (grows && memories >= 0 && memories != queries)
    bad_input("a growing memory has a position for each query: got ", queries, " and ", memories);
  const Mask seen = grows ? Mask{.causal = true} : mask;
  if (grows) {
    Runner fresh(*program_, sizes_of_new_memory(queries), inputs, params, forward, path, seen);
    fresh.continue_at({length_, memory_length_}, {&memory_tails_, Role::memory});
    for (int number : frontier_) {
      if (sides_[number] == Side::once && cache_.contains(number)) continue;
      const Value& rows = fresh.at(number);
      append(number, rows.tensor.detach(), rows.batched);
    }
    memory_length_ += queries;
  } else if (memory_length_ == 0) {
    memory_length_ = std::max<Index>(memories, 0);
  }
  Tensors given = inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (sides_[program_->inputs[i]] == Side::memory && (grows || length_ > 0)) {
      // A placeholder: only its length is used; values come from the cache.
      Shape shape = inputs[i].shape();
      const CheckedValue& v = program_->values[program_->inputs[i]];
      shape[shape.size() - v.dims.size()] = memory_length_;
      given[i] = spread(0, shape, inputs[i].dtype(), inputs[i].backend());
    }
  Runner whole(*program_, sizes_for(queries, memory_length_), given, params, forward, path, seen);
  whole.continue_at({.query = length_}, {&query_tails_, Role::query});
  for (const auto& [number, value] : cache_) whole.set(number, value);
  if (!grows && cache_.empty())
    for (int number : frontier_) cache_[number] = whole.at(number).tensor.detach();
  const Tensor y = whole.at(program_->result).tensor.detach();
  length_ += queries;
  return y;
}

size_t Decoder::bytes() const {
  size_t all = 0;
  for (const auto& [number, value] : cache_)
    all += static_cast<size_t>(value.size()) * size_of(value.dtype());
  for (const auto* tails : {&query_tails_, &memory_tails_})
    for (const auto& [node, tail] : *tails)
      all += static_cast<size_t>(tail.size()) * size_of(tail.dtype());
  return all;
}

}  // namespace tete
