// The mask of a call (R18): a causal part, the padding, and the mask that the caller gives.
#include <algorithm>
#include <cmath>

#include "nn/run/runner.hpp"

namespace tete {

// The lengths of the sequence whose positions a dimension counts, by itself or by its size; empty
// if the call does not pad it.
Tensor Runner::lengths_of(int dim) const {
  const DimensionFlow& flow = program_.flow.dimensions[dim];
  if (flow.counts_m && mask_.lengths) return mask_.lengths;
  return !flow.counts_x ? Tensor() : one_sequence_ ? mask_.lengths : mask_.query_lengths;
}

// The lengths of a sequence or of its pieces (R17): a piece is there if its last place is a
// position, or one of the `right=` places behind them.
Tensor Runner::lengths_inside(int dim) {
  const DimensionFlow& flow = program_.flow.dimensions[dim];
  if (flow.within == Role::none) return {};  // rows that are picked are all there
  const int pieces = flow.pieces;
  if (pieces < 0) return lengths_of(dim);
  const Windows& w = program_.windows[static_cast<size_t>(pieces)];
  const Tensor whole = lengths_inside(w.of);
  if (!whole) return whole;
  const auto number = [&](const std::vector<Node>& given, double otherwise) {
    return given.empty() ? otherwise : quantity(given[0]);
  };
  const double beside = number(w.left, 0) + number(w.right, 0), stride = number(w.stride, 1),
               width = static_cast<double>(size(w.place)),
               count = static_cast<double>(size(w.count));
  std::vector<int64_t> lengths;
  for (double length : whole.values<double>()) {
    const double there = std::floor((length + beside - width) / stride) + 1;
    lengths.push_back(static_cast<int64_t>(std::clamp(there, 0.0, count)));
  }
  return Tensor::of<int64_t>(whole.shape(), std::span<const int64_t>(lengths));
}

// Position 0 is padding where a sample is empty.
bool Runner::reads_padding(const Combination& c) {
  const Tensor padded = lengths_of(c.dim);
  if (!padded) return false;
  if (c.reads == Combination::Reads::first) {
    const std::vector<double> lengths = padded.values<double>();
    return std::find(lengths.begin(), lengths.end(), 0) != lengths.end();
  }
  const bool stays = c.how == Combination::How::renames && lengths_of(c.beside);
  return c.reads == Combination::Reads::padding && !stays;
}

void Runner::check_mask() {
  if (mask_.causal)
    if (const std::string leak = mask_.apart ? leak_of(program_, true) : program_.leak;
        !leak.empty())
      throw Error(ErrorKind::input, leak);
  check_lengths();
  if (mask_.of_model) return;
  const bool pairs = mask_.causal || mask_.visible;
  if ((pairs && !program_.takes_mask) ||
      (mask_.lengths && !program_.takes_mask && !program_.takes_padding))
    bad_input("'", program_.name, "' is given a ",
              mask_.causal    ? "causal mask"
              : mask_.visible ? "mask"
                              : "padded memory",
              ", but no statement of it takes the mask of the call: none is a softmax over one ",
              "of two sequence axes, and none says visible(", pairs ? "n, m" : "m", ")");
}

void Runner::check_lengths() {
  for (Combination c : program_.flow.combinations)
    if (reads_padding(c)) {
      c.reads = Combination::Reads::padding;
      throw Error(ErrorKind::input, sentence(program_, c));
    }
  for (const Tensor& lengths : {mask_.lengths, mask_.query_lengths})
    if (lengths && !(lengths.shape() == batch_))
      bad_input("the lengths of the memory have shape ", lengths.shape(), ", but the batch is ",
                batch_);
}

Tensor Runner::visible_over(const Names& names) {
  int memory = names[0];
  for (int name : names)
    if (dimension(name).role == Role::memory) memory = name;
  const Value mask = mask_along(names, memory);
  if (!mask.tensor) return Tensor::repeated(1, shape_of(names, false), dtype_, device());
  return aligned(mask, names, mask.batched).tensor;
}

Value Runner::visible(const Node& n) {
  if (n.names.size() == 2) {
    const Tensor mask = visible_over(n.names);
    return {mask, n.names, mask.rank() > 2};
  }
  if (mask_.lengths && !is_padded(n.names[0]))
    fail_at({n.place}, "the call pads the memory; whether queries are padded is not known");
  const Value there = padding_along(n.names[0]);
  if (there.tensor) return there;
  return {Tensor::repeated(1, shape_of(n.names, false), dtype_, device()), n.names, false};
}

// ---- Parts --------------------------------------------------------------------------------------

bool Runner::is_padded(int dim) const {
  return dimension(dim).role != Role::none && lengths_of(dim);
}

Value Runner::mask_along(const Names& names, int dim) {
  const AxisPair pair = masked_pair(names, dim, program_.dimensions);
  return pair.query >= 0 ? call_mask(pair) : padding_along(dim);
}

// The number of positions of the memory that a causal mask shows to the first query.
static Index causal_to_first(Runner& runner, const Names& pair) {
  return runner.first(pair[0]) - runner.first(pair[1]) + 1;
}

std::optional<Index> Runner::shown_to_first(const Names& names, int rows, int dim) {
  const AxisPair pair = masked_pair(names, dim, program_.dimensions);
  if (is_padded(pair.query >= 0 ? pair.memory : dim)) return {};
  if (pair.query < 0) return shows_all;
  if (mask_.visible) return {};
  if (!mask_.causal || !is_causal_pair(pair, program_.dimensions, mask_.apart)) return shows_all;
  if (pair.query != rows || pair.memory != dim) return {};
  return causal_to_first(*this, {pair.query, pair.memory});
}

Value Runner::padding_along(int dim) {
  return is_padded(dim) ? padding(dim, lengths_of(dim)) : Value{};
}

Value Runner::there_along(int dim) {
  if (program_.flow.dimensions[dim].pieces < 0) return padding_along(dim);
  const Tensor lengths = lengths_inside(dim);
  return lengths ? padding(dim, lengths) : Value{};
}

// visible[batch, m] = m < length.
Value Runner::padding(int dim, const Tensor& of_samples) {
  const Index m = size(dim), begin = block_start(dim);
  for (double length : of_samples.values<double>())
    if (!(length >= 0 && length <= static_cast<double>(whole_size(dim))))
      bad_input("a memory of length ", length, " does not fit into '", dimension(dim).name,
                "' = ", whole_size(dim));
  Shape shape = batch_;
  shape.push_back(m);
  const Axes batch = all_axes(batch_.size());
  Tensor rows = arange(m, dtype_, device());
  if (begin > 0) rows = rows + static_cast<double>(begin);
  const Tensor lengths = cast(of_samples.to(device()), dtype_);
  return {less(expand(rows, batch, shape), expand(lengths, {batch_.size()}, shape)), {dim}, true};
}

// Position j of m is visible to position i of n if j <= i, where both count from the sequence's
// start.
static Value causal(Runner& runner, const Names& pair) {
  const Index n = runner.size(pair[0]), m = runner.size(pair[1]);
  const auto numbers = [&](Index count) { return arange(count, runner.dtype(), runner.device()); };
  const Tensor queries = numbers(n) + static_cast<double>(causal_to_first(runner, pair));
  return {less(expand(numbers(m), {0}, {n, m}), expand(queries, {1}, {n, m})), pair, false};
}

// The mask of the call over these axes, computed once.
Value Runner::call_mask(const AxisPair& axes) {
  const Names pair{axes.query, axes.memory};
  for (const Value& made : masks_)
    if (made.names == pair) return made;
  Value mask;
  const auto add = [&](const Value& v) { mask = mask.tensor ? both(mask, v, pair) : v; };
  if (mask_.causal && is_causal_pair(axes, program_.dimensions, mask_.apart))
    add(causal(*this, pair));
  if (mask_.visible) add(given(pair));
  if (is_padded(axes.memory)) add(padding(axes.memory, lengths_of(axes.memory)));
  if (!mask.tensor) return {};
  masks_.push_back(aligned(mask, pair, mask.batched));
  return masks_.back();
}

Value Runner::given(const Names& pair) {
  const bool batched = mask_.visible.rank() > 2;
  const Tensor v = pair[1] == strip_.dim
                       ? slice(mask_.visible, mask_.visible.rank() - 1, strip_.from, size(pair[1]))
                       : mask_.visible;
  if (!(v.shape() == shape_of(pair, batched)))
    bad_input("the mask has shape ", v.shape(), ", expected ", shapes_of(pair));
  return {cast(v.detach(), dtype_), pair, batched};
}

}  // namespace tete
