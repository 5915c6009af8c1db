#include "nn/decode.hpp"

#include <algorithm>

#include "nn/run/runner.hpp"

namespace tete {

Decoder::Decoder(std::shared_ptr<const Checked> program, const SizeTable& sizes, Growth growth)
    : program_(std::move(program)), sizes_(sizes), growth_(growth) {
  if (!program_->calls.empty())
    fail_at({program_->calls[0].place},
            "a text whose calls run as programs of their own is not "
            "read position by position yet");
  find_frontier();
  if (growth_ == Growth::grows) check_growth();
  else check_complete();
}

// Rows that depend on the memory alone do not change while the sequence grows, and each follows
// from the same row of the memory. What is over the memory otherwise is computed again from these.
// Parameters need no cache.
bool Decoder::is_kept(int value) const {
  const ValueFlow& flow = program_->flow.values[value];
  return program_->values[value].kind != ValueKind::parameter && !flow.from.queries &&
         (flow.by_row || growth_ == Growth::complete);
}

// Caches the result and each value that one of another kind reads, if they are to be kept.
void Decoder::find_frontier() {
  const auto count = static_cast<int>(program_->values.size());
  std::vector<bool> kept(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    for (int used : program_->values[i].uses)
      if (is_kept(used) && (!is_kept(i) || (from(i).memory && !from(used).memory)))
        kept[used] = true;
  if (is_kept(program_->result)) kept[program_->result] = true;
  for (int i = 0; i < count; ++i)
    if (kept[i]) frontier_.push_back(i);
}

std::vector<std::string> Decoder::kept() const {
  std::vector<std::string> names;
  if (program_->flow.rereads && growth_ == Growth::grows) return program_->input_names;
  for (int i : frontier_) names.push_back(program_->values[i].name);
  return names;
}

// ---- Refusals -----------------------------------------------------------------------------------

void Decoder::check_growth() const {
  if (!program_->leak.empty()) throw Error(ErrorKind::input, program_->leak);
  if (!program_->takes_mask)
    bad_input("'", program_->name,
              "' cannot read a sequence position by position: no statement of ",
              "it takes a causal mask");
}

// A memory that is complete knows nothing of later queries.
void Decoder::check_complete() const {
  const std::vector<Dimension>& all = program_->dimensions;
  const bool remembers = std::any_of(all.begin(), all.end(), [](const Dimension& d) {
    return d.role == Role::memory && d.sequence == Role::query;
  });
  if (program_->flow.rereads || (remembers && !program_->self_only))
    bad_input("'", program_->name,
              "' cannot read a sequence position by position: it combines the queries of a call");
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

// Runs the program on all positions that were read, and returns the last rows.
Tensor Decoder::read_again(const Tensors& inputs, Index queries, std::span<const ParamId> params,
                           const Forward& forward, const std::string& path) {
  const auto row_axis = [&](int value) {
    const Names& dims = program_->values[value].dims;
    for (int i = 0; i < dims.size(); ++i)
      if (program_->dimensions[dims[i]].role != Role::none) return i - dims.size();
    return 0;  // it has no rows
  };
  const Index before = length_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor rows = inputs[i].detach();
    const int axis = row_axis(program_->inputs[i]);
    if (read_.size() <= i) read_.push_back(rows);
    else if (axis < 0) read_[i] = concat({read_[i], rows}, rows.rank() + axis);
  }
  const Tensor y = run(*program_, sizes_, read_, params, forward, path, {.causal = true}).detach();
  const int axis = row_axis(program_->result);
  length_ = memory_length_ = before + queries;
  return axis < 0 ? slice(y, y.rank() + axis, before, queries) : y;
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
  if (grows && program_->flow.rereads) return read_again(inputs, queries, params, forward, path);
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

}  // namespace tete
