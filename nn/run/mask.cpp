// The mask of a call (R6): a causal part, the padding, and the mask that the caller gives.
#include "nn/run/runner.hpp"

namespace tete {

void Runner::check_mask() const {
  const bool pairs = mask_.causal || mask_.visible;
  if ((pairs && !program_.takes_mask) ||
      (mask_.lengths && !program_.takes_mask && !program_.takes_padding))
    bad_input("'", program_.name, "' is given a ",
              mask_.causal    ? "causal mask"
              : mask_.visible ? "mask"
                              : "padded memory",
              ", but no statement of it takes the mask of the call: none is a softmax over one ",
              "of two sequence axes");
  if (mask_.causal && !program_.leak.empty()) throw Error(Kind::input, program_.leak);
  if (mask_.lengths && !(mask_.lengths.shape() == batch_))
    bad_input("the lengths of the memory have shape ", mask_.lengths.shape(), ", but the batch is ",
              batch_);
}

Tensor Runner::visible_over(const Names& names) {
  if (mask_.hides_nothing()) return spread(1, shape_of(names, false), dtype_, device());
  const Value mask = call_mask(names);
  return aligned(mask, names, mask.batched).tensor;
}

Value Runner::visible(const Node& n) {
  if (n.names.size() == 2) {
    const Tensor mask = visible_over(n.names);
    return {mask, n.names, mask.rank() > 2};
  }
  const bool is_memory = dimension(n.names[0]).role == Role::memory || program_.self_only;
  if (mask_.lengths && !is_memory)
    fail_at({n.place}, "the call pads the memory; whether queries are padded is not known");
  if (!mask_.lengths)
    return {spread(1, shape_of(n.names, false), dtype_, device()), n.names, false};
  return padding(n.names[0]);
}

// visible[batch, m] = m < length.
Value Runner::padding(int memory) {
  const Index m = size(memory);
  for (double length : mask_.lengths.values<double>())
    if (!(length >= 0 && length <= static_cast<double>(whole_size(memory))))
      bad_input("a memory of length ", length, " does not fit into '", dimension(memory).name,
                "' = ", whole_size(memory));
  Shape shape = batch_;
  shape.push_back(m);
  Axes batch;
  for (int i = 0; i < batch_.size(); ++i) batch.push_back(i);
  const Tensor lengths = cast(mask_.lengths.to(device()), dtype_);
  return {less(expand(arange(m, dtype_, device()), batch, shape),
               expand(lengths, {batch_.size()}, shape)),
          {memory},
          true};
}

const Value& Runner::call_mask(const Names& names) {
  int query = -1, memory = -1;
  for (int name : names) {
    if (dimension(name).role == Role::query) query = name;
    if (dimension(name).role == Role::memory) memory = name;
  }
  for (const Value& made : masks_)
    if (made.names == Names{query, memory}) return made;
  const Names pair{query, memory};
  Value mask;
  const auto add = [&](const Value& v) { mask = mask.tensor ? both(mask, v, pair) : v; };
  if (mask_.causal) add(causal(pair));
  if (mask_.visible) add(given(pair));
  if (mask_.lengths) add(padding(memory));
  masks_.push_back(aligned(mask, pair, mask.batched));
  return masks_.back();
}

Value Runner::causal(const Names& pair) {
  const Index n = size(pair[0]), m = size(pair[1]);
  const Index last = first(pair[0]) - first(pair[1]);
  const Tensor queries = arange(n, dtype_, device()) + static_cast<double>(last + 1);
  return {less(expand(arange(m, dtype_, device()), {0}, {n, m}), expand(queries, {1}, {n, m})),
          pair, false};
}

Value Runner::given(const Names& pair) {
  const Tensor& v = mask_.visible;
  const bool batched = v.rank() > 2;
  if (!(v.shape() == shape_of(pair, batched)))
    bad_input("the mask has shape ", v.shape(), ", expected ", shapes_of(pair));
  return {cast(v.detach(), dtype_), pair, batched};
}

}  // namespace tete
