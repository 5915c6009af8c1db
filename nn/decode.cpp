#include "nn/decode.hpp"

#include <algorithm>

#include "nn/run/pairwise.hpp"
#include "nn/run/runner.hpp"
#include "nn/tile/query_rows.hpp"

namespace tete {

// ---- Refusals -----------------------------------------------------------------------------------

namespace {

void check_growth(const Checked& program) {
  if (!program.calls.empty())
    fail_at({program.calls[0].place},
            "a text whose calls run as programs of their own is not "
            "read position by position yet");
  if (!program.leak.empty()) throw Error(ErrorKind::input, program.leak);
}

// A memory that is complete knows nothing of later queries.
void check_complete(const Checked& program) {
  const std::vector<Dimension>& all = program.dimensions;
  const bool remembers = std::any_of(all.begin(), all.end(), [](const Dimension& d) {
    return d.role == Role::memory && d.sequence == Role::query;
  });
  if (program.flow.rereads || remembers)
    bad_input("'", program.name,
              "' cannot read a sequence position by position: it combines the queries of a call");
}

// Also what it calls for new rows. Other calls run once, as a whole.
void check_rows(const Checked& program, Growth growth) {
  if (growth == Growth::grows) return check_growth(program);
  check_complete(program);
  for (size_t i = 0; i < program.values.size(); ++i) {
    const CheckedValue& v = program.values[i];
    if (v.kind != ValueKind::call || !program.flow.values[i].from.queries) continue;
    visit(program.calls[v.index], [&](const CheckedCall& call) {
      const CallSequences inside = sequences_of(program, call, true, program.has_memory());
      check_rows(*call.program, growth_of(call, inside.causal, inside.apart));
    });
  }
}

}  // namespace

Growth growth_of(const CheckedCall& call, bool causal, bool apart) {
  const bool remembers = call.memory >= 0 || call.program->self_only;
  return remembers && causal && !apart ? Growth::grows : Growth::complete;
}

// ---- The cache ----------------------------------------------------------------------------------

Decoder::Decoder(std::shared_ptr<const Checked> program, const SizeTable& sizes, Growth growth)
    : program_(std::move(program)), sizes_(sizes), growth_(growth) {
  check_rows(*program_, growth_);
  constexpr Index long_read = 512;  // positions, for which the order of products is chosen
  if (auto in_twos = pairwise_by_rows(*program_, sizes_for(long_read, long_read))) {
    sizes_ = sizes_.of(in_twos);
    program_ = std::move(in_twos);
  }
  find_frontier();
  find_order();
  find_behind();
}

// Rows that depend on the memory alone do not change while the sequence grows, and each follows
// from the same row of the memory. What is over the memory otherwise is computed again from these.
// Parameters need no cache.
bool Decoder::is_cacheable(int value) const {
  const ValueFlow& flow = program_->flow.values[value];
  return program_->values[value].kind != ValueKind::parameter && !flow.from.queries &&
         (flow.by_row || growth_ == Growth::complete);
}

// Caches the result, and each value that is read by one that cannot be cached, or by one that
// depends on the memory where the value itself does not; all if they can be cached.
void Decoder::find_frontier() {
  const auto count = static_cast<int>(program_->values.size());
  std::vector<bool> cached(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    for (int used : program_->values[i].uses)
      if (is_cacheable(used) && (!is_cacheable(i) || (from(i).memory && !from(used).memory)))
        cached[used] = true;
  if (is_cacheable(program_->result)) cached[program_->result] = true;
  for (int i = 0; i < count; ++i)
    if (cached[i]) frontier_.push_back(i);
}

void Decoder::find_order() {
  if (growth_ == Growth::grows) return;
  std::vector<bool> needed(program_->values.size());
  needed[program_->result] = true;
  mark_sources(*program_, needed);
  for (size_t i = 0; i < needed.size(); ++i)
    if (needed[i]) order_.push_back(static_cast<int>(i));
}

// R28: behind the last call that reads other rows, each row follows from the same row before it.
void Decoder::find_behind() {
  const QueryRows rows(*program_);
  std::vector<bool> read_whole(program_->values.size()), read(program_->values.size());
  const auto follows_by_row = [&](int number) {
    const CheckedValue& v = program_->values[number];
    if (v.kind != ValueKind::statement && v.kind != ValueKind::same) return false;
    bool keeps = from(number).queries && !program_->is_over(v.dims, Role::memory);
    visit(v.right, [&](const Node& node) {
      keeps &= !(node.builtin && (node.builtin->reads_earlier_rows || node.builtin->masks));
    });
    return keeps && rows.read_by(v).reason.empty();
  };
  for (auto at = order_.rbegin(); at != order_.rend(); ++at) {
    const bool is_behind = !read_whole[*at] && follows_by_row(*at);
    if (is_behind) behind_.insert(behind_.begin(), *at);
    else if (read[*at]) before_behind_.push_back(*at);
    for (int used : program_->values[*at].uses) (is_behind ? read : read_whole)[used] = true;
  }
}

std::vector<std::string> Decoder::cached() const {
  std::vector<std::string> names;
  if (reads_again()) return program_->input_names;
  for (int i : frontier_) names.push_back(program_->values[i].name);
  return names;
}

// ---- The next positions -------------------------------------------------------------------------

SizeTable Decoder::sizes_for(Index queries, Index memories) const {
  SizeTable sizes = sizes_;
  sizes.set_lengths(queries, memories);
  sizes.set_causal(growth_ == Growth::grows);
  for (int dim = 0; dim < std::ssize(program_->dimensions); ++dim)
    if (program_->flow.dimensions[dim].stands_for_queries) sizes.set(dim, queries);
  return sizes;
}

// The sizes of a run whose memory has the new positions only. Dimensions of windows over the memory
// count the windows that the new positions complete.
SizeTable Decoder::sizes_of_new_memory(Index queries) const {
  SizeTable sizes = sizes_for(queries, queries);
  SizeTable before = sizes_for(queries, memory_length_);
  SizeTable after = sizes_for(queries, memory_length_ + queries);
  for (int dim = 0; dim < std::ssize(program_->dimensions); ++dim)
    if (program_->flow.dimensions[dim].windows) sizes.set(dim, after.size(dim) - before.size(dim));
  return sizes;
}

void Decoder::append(int number, const Tensor& rows, bool batched) {
  const CheckedValue& v = program_->values[number];
  int axis = -1;
  for (int i = 0; i < v.dims.size(); ++i)
    if (program_->is_over({v.dims[i]}, Role::memory)) axis = i;
  const int batch = batched ? rows.rank() - v.dims.size() : 0;
  if (axis >= 0) cache_[number].append(rows, batch + axis);
  else cache_[number] = rows;
}

void Decoder::repeat(Index count) {
  const auto spread = [count](const Tensor& x, const Names& dims) {
    if (!x || x.rank() == dims.size()) return x;  // it has no batch
    Shape shape = x.shape();
    shape[0] = count;
    return broadcast(x, shape);
  };
  for (auto& [number, x] : cache_) x = spread(x.rows(), program_->values[number].dims);
  for (size_t i = 0; i < read_.size(); ++i)
    read_[i] = spread(read_[i].rows(), program_->values[program_->inputs[i]].dims);
  for (auto* tails : {&query_tails_, &memory_tails_})
    for (auto& [windows, x] : *tails) x = spread(x, windows->args[0].names);
}

// Runs the program on all positions that were read, and returns the last rows.
Tensor Decoder::read_again(const Tensors& inputs, Index queries, std::span<const ParamId> params,
                           const Forward& forward, const std::string& path, const Mask& mask) {
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
    else if (axis < 0) read_[i].append(rows, rows.rank() + axis);
  }
  Tensors all;
  for (const GrowingRows& x : read_) all.push_back(x.rows());
  const Tensor y = run(*program_, sizes_, all, params, forward, path, mask).detach();
  const int axis = row_axis(program_->result);
  length_ = memory_length_ = before + queries;
  return axis < 0 ? slice(y, y.rank() + axis, before, queries) : y;
}

// The lengths of new rows: those of the queries and of the memory; -1 if no input has one.
Decoder::Lengths Decoder::lengths_of(const Tensors& inputs) const {
  Lengths found;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Names& dims = program_->values[program_->inputs[i]].dims;
    for (int k = 0; k < dims.size(); ++k) {
      const Role role = program_->dimensions[dims[k]].role;
      const Index size = inputs[i].size(inputs[i].rank() - dims.size() + k);
      if (role == Role::query) found.queries = size;
      if (role == Role::memory) found.memories = size;
    }
  }
  if (found.queries < 0)
    bad_input("'", program_->name, "' has no queries to read position by position");
  if (growth_ == Growth::grows && found.memories >= 0 && found.memories != found.queries)
    bad_input("a growing memory has a position for each query: got ", found.queries, " and ",
              found.memories);
  return found;
}

// Caches the rows of the new memory, which `fresh` runs alone.
void Decoder::cache_rows(Runner& fresh, Index queries) {
  fresh.continue_at({length_, memory_length_}, {&memory_tails_, Role::memory});
  for (int number : frontier_) {
    if (!from(number).memory && cache_.contains(number)) continue;
    const Value& rows = fresh.at(number);
    append(number, rows.tensor.detach(), rows.batched);
  }
  memory_length_ += queries;
}

// The inputs, but placeholders for those of the memory whose values come from the cache: only their
// length is used.
Tensors Decoder::with_placeholders(const Tensors& inputs) const {
  Tensors given = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int value = program_->inputs[i];
    if (!is_of_memory_alone(value) || (growth_ == Growth::complete && length_ == 0)) continue;
    const Names& dims = program_->values[value].dims;
    const auto axis = std::find_if(dims.begin(), dims.end(), [&](int dim) {
      return program_->dimensions[dim].role == Role::memory;
    });
    if (axis == dims.end()) continue;  // a vector, as a row of what each repetition is given
    Shape shape = inputs[i].shape();
    shape[shape.size() - static_cast<int>(dims.end() - axis)] = memory_length_;
    given[i] = Tensor::repeated(0, shape, inputs[i].dtype(), inputs[i].backend());
  }
  return given;
}

// Runs what is behind on the last row of what it reads.
Tensor Decoder::run_behind(Runner& whole, Index queries, const Forward& forward,
                           const std::string& path, const Mask& mask) const {
  const SizeTable sizes = sizes_for(1, memory_length_);
  const CallPart part{.batch = whole.batch(),
                      .dtype = whole.dtype(),
                      .first = {.query = length_ + queries - 1},
                      .block = {},
                      .device = &whole.device(),
                      .one_sequence = false};
  Runner last(sizes, part, forward, path, mask);
  for (int number : before_behind_) {
    const Value& v = whole.at(number);
    Tensor rows = v.tensor.detach();
    for (int dim : v.names)
      if (program_->dimensions[dim].role == Role::query)
        rows = slice(rows, whole.axis_of(v, dim), queries - 1, 1);
    last.set(number, rows);
  }
  for (int number : behind_) last.at(number);
  return last.at(program_->result).tensor.detach();
}

Tensor Decoder::next(const Tensors& inputs, std::span<const ParamId> params, const Forward& forward,
                     const std::string& path, const Mask& mask, bool last_only) {
  const auto [queries, memories] = lengths_of(inputs);
  const bool grows = growth_ == Growth::grows;
  const Mask seen = grows ? Mask{.causal = true, .of_model = mask.of_model} : mask;
  if (reads_again()) return read_again(inputs, queries, params, forward, path, seen);
  if (grows) {
    Runner fresh(*program_, sizes_of_new_memory(queries), inputs, params, forward, path, seen);
    cache_rows(fresh, queries);
  } else if (memory_length_ == 0) {
    memory_length_ = std::max<Index>(memories, 0);
  }
  const Tensors given = with_placeholders(inputs);
  Runner whole(*program_, sizes_for(queries, memory_length_), given, params, forward, path, seen);
  whole.continue_at({.query = length_}, {&query_tails_, Role::query});
  for (const auto& [number, value] : cache_) whole.set(number, value.rows());
  const bool cuts = last_only && queries > 1 && !behind_.empty() && !forward.is_looked_into();
  const auto waits = [&](int number) {
    return cuts && std::binary_search(behind_.begin(), behind_.end(), number);
  };
  // In the text's order: at() alone would go as deep as a chain of values is long.
  for (int number : order_)
    if ((length_ == 0 || !is_cacheable(number)) && !waits(number)) whole.at(number);
  if (!grows && cache_.empty())
    for (int number : frontier_) cache_[number] = whole.at(number).tensor.detach();
  whole.show_skipped();
  const Tensor y = cuts ? run_behind(whole, queries, forward, path, seen)
                        : whole.at(program_->result).tensor.detach();
  length_ += queries;
  return y;
}

}  // namespace tete
