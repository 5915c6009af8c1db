#include "nn/decode.hpp"

#include <algorithm>

#include "nn/run/runner.hpp"

namespace tete {

Decoder::Decoder(std::shared_ptr<const Checked> program, const SizeTable& sizes, Growth growth)
    : program_(std::move(program)), sizes_(sizes), growth_(growth) {
  find_frontier();
  if (growth_ == Growth::grows) check_growth();
}

// Rows that depend on the memory alone do not change while the sequence grows. Parameters need no
// cache.
bool Decoder::is_kept(int value) const {
  return program_->values[value].kind != CheckedValue::Kind::parameter && !from(value).queries;
}

// Caches the result and each value that one of another kind reads, if they are to be kept.
void Decoder::find_frontier() {
  const auto count = static_cast<int>(program_->values.size());
  std::vector<bool> kept(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    for (int used : program_->values[i].uses)
      if (is_kept(used) && (from(i).queries || (from(i).memory && !from(used).memory)))
        kept[used] = true;
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
  for (size_t i = 0; i < program_->values.size(); ++i)
    check_growth(program_->values[i], from(static_cast<int>(i)));
}

void Decoder::check_growth(const CheckedValue& v, const Sources& of) const {
  const auto is_over = [&](Role role) {
    return program_->is_over(v.dims, role) || program_->is_over(v.names, role);
  };
  const bool mixed = of.queries && of.memory;
  if (v.kind == CheckedValue::Kind::same && mixed && !is_over(Role::query) && is_over(Role::memory))
    fail_at({v.place}, text("'", v.name, "' is a memory made of what attention gave, so it ",
                            "cannot be read position by position"));
  if (v.kind == CheckedValue::Kind::statement && of.memory && !of.queries && !is_over(Role::memory))
    fail_at({v.place}, text("'", v.name, "' is made of the whole memory, so the sequence cannot ",
                            "be read position by position"));
  visit(v.right, [&](const Node& node) {
    if (mixed && node.builtin && node.builtin->reads_earlier_rows &&
        program_->is_over({node.dim()}, Role::query))
      fail_at({node.place},
              "windows over the queries of what depends on the memory, too, cannot be "
              "read position by position");
  });
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
  for (const Windows& w : program_->windows)
    if (program_->flow.dimensions[w.count].windows)
      sizes.set(w.count, after.size(w.count) - before.size(w.count));
  return sizes;
}

void Decoder::append(int number, const Tensor& rows, bool batched) {
  Tensor& kept = cache_[number];
  const CheckedValue& v = program_->values[number];
  int axis = -1;
  for (int i = 0; i < v.dims.size(); ++i)
    if (program_->is_over({v.dims[i]}, Role::memory)) axis = i;
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
      if (!from(number).memory && cache_.contains(number)) continue;
      const Value& rows = fresh.at(number);
      append(number, rows.tensor.detach(), rows.batched);
    }
    memory_length_ += queries;
  } else if (memory_length_ == 0) {
    memory_length_ = std::max<Index>(memories, 0);
  }
  Tensors given = inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_of_memory_alone(program_->inputs[i]) && (grows || length_ > 0)) {
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
