// Tensor: an immutable value and, if it is tracked, where it came from.
//
// A Tensor is a light handle. What it refers to is a shape, a window onto storage and, if it is
// tracked, a node of the graph. The node of an operation's result has a record: the operation's
// inputs and its gradient rule. A gradient rule (Vjp) is written in tensor operations, so a
// gradient can be differentiated again. Its closure holds numbers only; what a record keeps alive
// is its inputs, so no cycle can form and a deep graph is released without recursion. A node does
// not keep its tensor's value: who reads it later does.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/storage.hpp"

namespace tete {

class Tensor;
using Tensors = std::vector<Tensor>;

// What a gradient rule is given: the inputs and output of the operation and the gradient g of y.
struct Backward {
  const Tensors& in;
  const Tensors& kept;  // what the operation's kernel asked to keep
  const Tensor& y;
  const Tensor& g;
  const std::vector<bool>& wanted;  // by input; the rule may return an empty Tensor where false
  bool wants(size_t i) const { return wanted[i]; }
};
// Returns the gradient of every input, in their order; an empty Tensor means zero.
using Vjp = std::function<Tensors(const Backward&)>;
// Whose numbers a gradient rule reads besides g's and those kept for it: of what carries a gradient
// only these stay in memory. All else has its shape, type and strides, but no numbers.
struct Reads {
  bool result = true;
  uint32_t inputs = ~0u;  // bit i: input i; the last one: and all that follow
  constexpr bool input(size_t i) const { return (inputs >> std::min<size_t>(i, 31) & 1u) != 0; }
};
inline constexpr Reads reads_all{}, reads_inputs{.result = false}, reads_result{.inputs = 0},
    reads_nothing{.result = false, .inputs = 0};

// A line of source code: by default the one that asks.
struct CodeLine {
  const char* file = "";
  int line = 0;
  static CodeLine here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

class Tensor {
 public:
  Tensor() = default;  // no value: !tensor
  explicit operator bool() const { return body_ != nullptr; }

  // Fresh memory, row-major unless dense strides are given; the caller fills it through view().
  static Tensor empty(const Shape& shape, Dtype dtype = Dtype::f32, Backend& on = cpu());
  static Tensor empty_strided(const Shape& shape, const Strides& strides, Dtype dtype,
                              Backend& on = cpu());
  // Fresh memory where x is, that lies as x does, dense; broadcast dimensions of x become real
  // ones.
  static Tensor empty_like(const Tensor& x, Dtype dtype);
  static Tensor empty_like(const Tensor& x) { return empty_like(x, x.dtype()); }
  static Tensor full(const Shape& shape, double value, Dtype dtype = Dtype::f32,
                     Backend& on = cpu());
  static Tensor zeros(const Shape& shape, Dtype dtype = Dtype::f32, Backend& on = cpu()) {
    return full(shape, 0, dtype, on);
  }
  static Tensor ones(const Shape& shape, Dtype dtype = Dtype::f32, Backend& on = cpu()) {
    return full(shape, 1, dtype, on);
  }
  static Tensor scalar(double value, Dtype dtype = Dtype::f32) { return full({}, value, dtype); }
  // One element that every coordinate sees: all strides are 0.
  static Tensor repeated(double value, const Shape& shape, Dtype dtype, Backend& on = cpu());
  // A copy of `values`, in row-major order. Fails unless their number is that of the shape.
  template <class T>
  static Tensor of(const Shape& shape, std::span<const T> values);
  template <class T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values) {
    return of(shape, std::span<const T>(values.begin(), values.size()));
  }

  Dtype dtype() const { return body_->dtype; }
  const Shape& shape() const { return body_->shape; }
  const Strides& strides() const { return body_->strides; }
  int rank() const { return body_->shape.size(); }
  Index size() const { return element_count(body_->shape); }
  Index size(int axis) const { return body_->shape[axis]; }
  Backend& backend() const { return *body_->backend; }
  // For kernels. Nobody writes through it once the tensor has been handed on.
  View view() const;
  const Storage& storage() const { return body_->storage; }
  bool is_row_major() const;

  // The values in row-major order, converted to T.
  template <class T = double>
  std::vector<T> values() const;
  // The value of a tensor with one element.
  double item() const;

  // Whether operations on it are recorded.
  bool tracked() const { return body_->node != nullptr; }
  // The same value, untracked: nothing is recorded through it. Shares the memory.
  Tensor detach() const;
  // The same value as a leaf that gradients can be taken of. Shares the memory.
  Tensor variable() const;
  // The same f32 value in bf16, at the same place of the graph: a gradient that reaches it is f32
  // and goes on to what made this. Numbers that do not last are rounded once while the graph lives.
  // They lie in memory in the same order, without gaps; what is repeated stays so.
  Tensor rounded() const;
  // Its shape, at the same place of the graph. It keeps no memory.
  Tensor without_numbers() const;
  // How it was made.
  struct Record {
    const char* op;
    Tensors inputs, kept;
    Vjp vjp;
    CodeLine rule;  // where the operation is written
    Reads reads;
    // Whether the result's numbers may stay as long as the graph, whoever else lets them go: the
    // rule reads them, or they are an input's.
    bool lasts;
  };
  // Null for a leaf and for what is not tracked.
  const Record* made_by() const { return tracked() ? body_->node->record.get() : nullptr; }
  // Another window onto the same storage; offset in elements from this one's first. Untracked.
  Tensor window(const Shape& shape, const Strides& strides, Index offset = 0) const;

  // Grows with every tensor made, so an input's number is smaller than its result's.
  uint64_t number() const { return tracked() ? body_->node->number : body_->number; }
  // The same value object, or the same place of the graph (not: equal values).
  bool same(const Tensor& other) const {
    return body_ == other.body_ ||
           (*this && other && tracked() && body_->node == other.body_->node);
  }
  // Whether there are numbers, or only a shape: see Reads.
  bool has_numbers() const { return static_cast<bool>(body_->storage); }

 private:
  // A window onto storage, or without storage only its shape.
  struct Value {
    Dtype dtype{};
    Backend* backend = nullptr;
    Index offset = 0;
    Shape shape;
    Strides strides;
    Storage storage;
  };
  // A place in the graph.
  struct Node {
    std::atomic<int> references{1};
    uint64_t number;
    std::unique_ptr<Record> record;              // null for a leaf
    Value result;                                // as record->reads says
    std::atomic<const Value*> rounded{nullptr};  // its own, if it was asked for
    Node* next = nullptr;                        // of the nodes that wait to be released
    explicit Node(uint64_t number) : number(number) {}
    ~Node() { delete rounded.load(); }
  };
  struct Body : Value {
    std::atomic<int> references{1};
    uint64_t number = 0;
    Node* node = nullptr;  // null: not tracked
  };
  explicit Tensor(Body& body) : body_(&body) {}  // not a pointer: that would accept 0
  // Of this node, if there is one.
  static Tensor of_value(const Value& value, Node* node = nullptr);
  static void release(Body* body) noexcept;
  static void release(Node* node) noexcept;
  static Tensor rounded_copy(const Tensor& x);
  void drop() noexcept {
    if (body_ && body_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) release(body_);
  }

  Body* body_ = nullptr;

 public:
  Tensor(const Tensor& other) : body_(other.body_) {
    if (body_) body_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Tensor(Tensor&& other) noexcept : body_(std::exchange(other.body_, nullptr)) {}
  Tensor& operator=(Tensor other) noexcept { return std::swap(body_, other.body_), *this; }
  ~Tensor() { drop(); }

  friend Tensor record(const char*, Tensor, Tensors, Vjp, Tensors, CodeLine, Reads);
  friend class Sweep;
};

// Makes `value`, a tensor that nobody else holds yet, the result of an operation on `inputs`. If
// no input is tracked nothing is recorded. `kept` are values for the gradient rule's kernel.
Tensor record(const char* op, Tensor value, Tensors inputs, Vjp vjp, Tensors kept = {},
              CodeLine rule = CodeLine::here(), Reads reads = reads_all);

inline Tensor record(const char* op, Tensor value, Tensors inputs, Vjp vjp, Reads reads,
                     CodeLine rule = CodeLine::here()) {
  return record(op, std::move(value), std::move(inputs), std::move(vjp), {}, rule, reads);
}

// xs, of which those without numbers are taken from `known`, where the same ones have them.
Tensors with_numbers(Tensors xs, std::span<const Tensor> known);

// Sees every result that this thread records while it lives, in their order, and returns it or
// another tensor of its shape to take its place. So a function's operations can be looked into one
// by one, without its help. Of several the innermost sees.
class RecordWatch {
 public:
  using Seen = std::function<Tensor(const Tensor& made)>;
  explicit RecordWatch(Seen seen);
  ~RecordWatch();
  RecordWatch(const RecordWatch&) = delete;

 private:
  Seen seen_;
  RecordWatch* outer_;
  friend Tensor record(const char*, Tensor, Tensors, Vjp, Tensors, CodeLine, Reads);
};

struct GradOptions {
  Tensor cotangent = {};    // the gradient of y; default: ones of y's shape
  bool keep_graph = false;  // whether the gradients can be differentiated again
};
// The gradients of y (summed, unless a cotangent is given) with respect to each of xs, in their
// order and shapes. An x that y does not depend on gives an empty Tensor: callers decide whether a
// severed gradient is an error. Fails if y is not tracked at all.
Tensors grad(const Tensor& y, std::span<const Tensor> xs, const GradOptions& options = {});

}  // namespace tete
