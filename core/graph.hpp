// The graph that gradients go along, and grad.
//
// The node of an operation's result has a record: the operation's inputs and its gradient rule. A
// gradient rule (Vjp) is written in tensor operations, so a gradient can be differentiated again.
// Its closure holds numbers only; a record keeps its inputs alive and nothing else, so no cycle can
// form and a deep graph is released without recursion.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "core/tensor.hpp"

namespace tete {

// The arguments of a gradient rule: the operation's inputs and output, and the gradient g of y.
struct Backward {
  const Tensors& in;
  const Tensors& kept;  // tensors that the operation's kernel asked to keep
  const Tensor& y;
  const Tensor& g;
  const std::vector<bool>& wanted;  // by input; the rule may return an empty Tensor where false
  bool wants(size_t i) const { return wanted[i]; }
};
// Returns the gradient of every input, in their order; an empty Tensor means zero.
using Vjp = std::function<Tensors(const Backward&)>;
// Which values a gradient rule reads, besides g and `kept`. Only these keep their storage until
// backward; all others that carry a gradient keep shape, strides and type.
struct Saved {
  bool result = true;
  uint32_t inputs = ~0u;  // bit i: input i; the last one: and all that follow
  constexpr bool input(size_t i) const { return (inputs >> std::min<size_t>(i, 31) & 1u) != 0; }
};
inline constexpr Saved saves_all{}, saves_inputs{.result = false}, saves_result{.inputs = 0},
    saves_nothing{.result = false, .inputs = 0};

// A line of source code: by default the one that asks.
struct CodeLine {
  const char* file = "";
  int line = 0;
  static CodeLine here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// How a tensor was made.
struct Record {
  const char* op;
  Tensors inputs, kept;
  Vjp vjp;
  CodeLine rule;  // where the operation is written
  Saved saved;
  // True if the graph itself holds the result's storage: the rule reads it, or it is shared with an
  // input.
  bool holds_storage;
};

// Makes `value`, a tensor that nothing else holds yet, the result of an operation on `inputs`. If
// no input is tracked nothing is recorded. `kept` are values for the gradient rule's kernel.
Tensor record(const char* op, Tensor value, Tensors inputs, Vjp vjp, Tensors kept = {},
              CodeLine rule = CodeLine::here(), Saved saved = saves_all);

inline Tensor record(const char* op, Tensor value, Tensors inputs, Vjp vjp, Saved saved,
                     CodeLine rule = CodeLine::here()) {
  return record(op, std::move(value), std::move(inputs), std::move(vjp), {}, rule, saved);
}

// xs with storage: those without are replaced by the same tensors among `known`, which have it.
Tensors with_storage(Tensors xs, std::span<const Tensor> known);

// Calls `seen` with every result that this thread records while the watch lives, in their order.
// `seen` returns the result, or another tensor of its shape that takes its place: so a function's
// operations can be inspected one by one, without its help. Only the innermost watch is called.
class RecordWatch {
 public:
  using Seen = std::function<Tensor(const Tensor& made)>;
  explicit RecordWatch(Seen seen);
  ~RecordWatch();
  RecordWatch(const RecordWatch&) = delete;

 private:
  Seen seen_;
  RecordWatch* outer_;
  friend class Recorder;
};

struct GradOptions {
  Tensor cotangent = {};    // the gradient of y; default: ones of y's shape
  bool keep_graph = false;  // true: the gradients can be differentiated again
  // If set, called with i and the gradient of xs[i] as soon as it is final, while others are still
  // to be computed; not for an x that y does not depend on.
  std::function<void(size_t i, const Tensor& gradient)> on_ready = {};
};
// The gradients of y (summed, unless a cotangent is given) with respect to each of xs, in their
// order and shapes. An x that y does not depend on gives an empty Tensor: callers decide whether a
// severed gradient is an error. Fails if y is not tracked at all.
Tensors grad(const Tensor& y, std::span<const Tensor> xs, const GradOptions& options = {});

}  // namespace tete
