// Tensor: a value and, if it is tracked, where it came from. Operations make new values; only an
// update (core/update.hpp) writes over one, where no other tensor and no graph holds it.
//
// A Tensor is a light handle. It refers to a shape, a window onto storage and, if it is tracked, a
// node of the graph (core/graph.hpp). The graph keeps a value's storage only if a gradient rule
// reads it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/storage.hpp"

namespace tete {

class Tensor;
using Tensors = std::vector<Tensor>;

struct Record;  // core/graph.hpp

class Tensor {
 public:
  Tensor() = default;  // no value: !tensor
  explicit operator bool() const { return body_ != nullptr; }

  // Fresh memory, row-major unless dense strides are given; the caller fills it through view().
  static Tensor empty(const Shape& shape, Dtype dtype = Dtype::f32, Backend& on = cpu());
  static Tensor empty_strided(const Shape& shape, const Strides& strides, Dtype dtype,
                              Backend& on = cpu());
  // Fresh memory on x's backend, dense, in x's memory order; broadcast dimensions of x get elements
  // of their own.
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
  static Tensor scalar(double value, Dtype dtype = Dtype::f32, Backend& on = cpu()) {
    return full({}, value, dtype, on);
  }
  // One stored element for every coordinate: all strides are 0.
  static Tensor repeated(double value, const Shape& shape, Dtype dtype, Backend& on = cpu());
  static Tensor repeated_like(const Tensor& x, double value) {
    return repeated(value, x.shape(), x.dtype(), x.backend());
  }
  // A copy of `values`, in row-major order. Fails unless their number is that of the shape.
  template <class T>
  static Tensor of(const Shape& shape, std::span<const T> values, Backend& on = cpu());
  template <class T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values, Backend& on = cpu()) {
    return of(shape, std::span<const T>(values.begin(), values.size()), on);
  }

  Dtype dtype() const { return body_->dtype; }
  const Shape& shape() const { return body_->shape; }
  const Strides& strides() const { return body_->strides; }
  int rank() const { return body_->shape.size(); }
  Index size() const { return element_count(body_->shape); }
  Index size(int axis) const { return body_->shape[axis]; }
  Backend& backend() const { return *body_->backend; }
  // A view for kernels. A kernel may write through it only before the tensor is handed on, or where
  // nothing else holds it.
  View view() const;
  const Storage& storage() const { return body_->storage; }
  bool is_row_major() const;

  // The same value on another device, at the same place of the graph: a gradient that reaches it
  // goes back to this device. Dense there, in the same dimension order.
  Tensor to(Backend& device) const;
  // The values in row-major order, converted to T; waits for the device.
  template <class T = double>
  std::vector<T> values() const;
  // The value of a tensor with one element.
  double item() const;
  // True if its elements lie side by side, in any order of its dimensions.
  bool is_dense() const;
  // The bytes of a dense tensor of the processor, in its memory order, for files and messages.
  // They may be written to only while no other tensor holds them. Fails (input) if it is elsewhere,
  // or not dense.
  std::span<std::byte> host_bytes() const;

  // True if neither another tensor nor a graph holds its value or its memory.
  bool is_only_holder() const {
    return !tracked() && body_->references.load(std::memory_order_acquire) == 1 &&
           !body_->storage.is_shared();
  }

  // True if operations on it are recorded.
  bool tracked() const { return body_->node != nullptr; }
  // The same value, untracked: nothing is recorded through it. Shares the memory.
  Tensor detach() const;
  // The same value as a leaf that gradients can be taken of. Shares the memory.
  Tensor variable() const;
  // The same f32 value in bf16, at the same place of the graph: a gradient that reaches it is f32
  // and goes on to this one's inputs. The copy of a temporary is cached on its node. It is dense,
  // in the same dimension order; broadcast dimensions stay broadcast.
  Tensor rounded() const;
  // The same place of the graph, without storage.
  Tensor without_storage() const;
  // The record of the operation that made it; null for a leaf and for an untracked tensor.
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
  // False if only shape, strides and type are left: see Saved.
  bool has_storage() const { return static_cast<bool>(body_->storage); }

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
    Value result;                                // with storage if record->saved says so
    std::atomic<const Value*> rounded{nullptr};  // cached bf16 copy
    Node* next = nullptr;                        // in the list of nodes that wait to be released
    explicit Node(uint64_t number);
    ~Node();
  };
  struct Body : Value {
    std::atomic<int> references{1};
    uint64_t number = 0;
    Node* node = nullptr;  // null: not tracked
  };
  explicit Tensor(Body& body) : body_(&body) {}  // not a pointer: that would accept 0
  static uint64_t next_number();
  // A tensor with this value, at this node if there is one.
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

  friend class Recorder;  // both: core/graph.cpp
  friend class Sweep;
};

// Fails (input) if two of these are on different devices. Empty tensors are on none.
void check_one_device(const char* op, std::span<const Tensor> tensors);
inline void check_one_device(const char* op, const Tensor& a, const Tensor& b) {
  if (&a.backend() != &b.backend()) check_one_device(op, Tensors{a, b});
}
// Fails (input) unless x has this dimension.
void check_axis(const char* op, const Tensor& x, int axis);

}  // namespace tete
