#include "core/tensor.hpp"

#include <algorithm>

#include "core/graph.hpp"

namespace tete {

uint64_t Tensor::next_number() {
  static std::atomic<uint64_t> made{0};
  return made.fetch_add(1, std::memory_order_relaxed) + 1;
}

Tensor::Node::Node(uint64_t number) : number(number) {}
Tensor::Node::~Node() { delete rounded.load(); }

Tensor Tensor::of_value(const Value& value, Node* node) {
  Body* const body = new Body{value};
  body->number = next_number();
  body->node = node;
  if (node) node->references.fetch_add(1, std::memory_order_relaxed);
  return Tensor(*body);
}

void Tensor::release(Body* body) noexcept {
  Node* const node = body->node;
  delete body;
  if (node && node->references.fetch_sub(1, std::memory_order_acq_rel) == 1) release(node);
}

// Releasing a node may release its inputs, theirs, and so on: a chain of two million would overflow
// the stack if each called the next. The nodes that wait form a list in place.
void Tensor::release(Node* node) noexcept {
  node->next = nullptr;
  while (node) {
    Node* const dead = node;
    node = dead->next;
    if (dead->record) {
      for (Tensor& input : dead->record->inputs) {
        Body* const held = std::exchange(input.body_, nullptr);
        if (!held || held->references.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        Node* const before = held->node;
        delete held;
        if (before && before->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
          before->next = std::exchange(node, before);
      }
    }
    delete dead;
  }
}

Tensor Tensor::empty(const Shape& shape, Dtype dtype, Backend& on) {
  return empty_strided(shape, row_major(shape), dtype, on);
}

Tensor Tensor::empty_strided(const Shape& shape, const Strides& strides, Dtype dtype, Backend& on) {
  const size_t bytes = static_cast<size_t>(element_count(shape)) * size_of(dtype);
  return of_value({dtype, &on, 0, shape, strides, Storage(on, bytes)});
}

Tensor Tensor::empty_like(const Tensor& x, Dtype dtype) {
  const Short<int> order = memory_order(x.shape(), x.strides());
  return empty_strided(x.shape(), dense_strides(x.shape(), order), dtype, x.backend());
}

Tensor Tensor::repeated(double value, const Shape& shape, Dtype dtype, Backend& on) {
  return full({}, value, dtype, on).window(shape, Strides(shape.size(), 0));
}

Tensor Tensor::full(const Shape& shape, double value, Dtype dtype, Backend& on) {
  Tensor made = empty(shape, dtype, on);
  made.backend().fill(value, made.view());
  return made;
}

template <class T>
Tensor Tensor::of(const Shape& shape, std::span<const T> values, Backend& on) {
  Tensor made = empty(shape, dtype_of<T>(), on);
  if (static_cast<Index>(values.size()) != made.size())
    bad_input("a tensor of shape ", shape, " has ", made.size(), " elements, but ", values.size(),
              " values were given");
  on.write(values.data(), made.view().data, values.size_bytes());
  return made;
}
template Tensor Tensor::of(const Shape&, std::span<const float>, Backend&);
template Tensor Tensor::of(const Shape&, std::span<const double>, Backend&);
template Tensor Tensor::of(const Shape&, std::span<const int64_t>, Backend&);

View Tensor::view() const {
  if (!has_storage())
    bad_input("a gradient rule reads ", describe(dtype(), shape()),
              ", whose numbers it did not ask record() to keep (Saved)");
  char* const bytes = static_cast<char*>(body_->storage.data());
  return {body_->dtype, body_->shape, body_->strides,
          bytes + body_->offset * static_cast<Index>(size_of(body_->dtype))};
}

bool Tensor::is_row_major() const {
  Index stride = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (size(i) != 1 && strides()[i] != stride) return false;
    stride *= std::max<Index>(1, size(i));
  }
  return true;
}

template <class T>
std::vector<T> Tensor::values() const {
  const Tensor flat = empty(shape(), dtype_of<T>(), backend());
  backend().copy(view(), flat.view());
  std::vector<T> all(static_cast<size_t>(size()));
  backend().read(flat.view().data, all.data(), all.size() * sizeof(T));
  return all;
}
template std::vector<float> Tensor::values() const;
template std::vector<double> Tensor::values() const;
template std::vector<int64_t> Tensor::values() const;

void check_one_device(const char* op, std::span<const Tensor> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor& x : tensors) {
    if (!x) continue;
    if (!first) first = &x;
    if (&x.backend() != &first->backend())
      bad_input(op, ": expected tensors on one device, got ",
                describe(first->dtype(), first->shape()), " on '", first->backend().name(),
                "' and ", describe(x.dtype(), x.shape()), " on '", x.backend().name(),
                "'; to(device) moves one");
  }
}

void check_axis(const char* op, const Tensor& x, int axis) {
  if (axis < 0 || axis >= x.rank())
    bad_input(op, ": ", axis, " is not a dimension of ", describe(x.dtype(), x.shape()));
}

double Tensor::item() const {
  if (size() != 1)
    bad_input("item: expected a tensor with one element, got ", describe(dtype(), shape()));
  return values<double>()[0];
}

bool Tensor::is_dense() const {
  const Strides dense = dense_strides(shape(), memory_order(shape(), strides()));
  bool same = true;
  for (int i = 0; i < rank(); ++i) same &= size(i) == 1 || strides()[i] == dense[i];
  return same || size() == 0;
}

std::span<std::byte> Tensor::host_bytes() const {
  if (&backend() != &cpu())
    bad_input("bytes are those of the processor's memory, got ", describe(dtype(), shape()),
              " on '", backend().name(), "'; to(cpu()) moves it");
  if (!is_dense())
    bad_input("bytes are those of a dense tensor, got strides ", strides(), " of ",
              describe(dtype(), shape()));
  return {static_cast<std::byte*>(view().data), static_cast<size_t>(size()) * size_of(dtype())};
}

Tensor Tensor::window(const Shape& shape, const Strides& strides, Index offset) const {
  return of_value(
      {dtype(), body_->backend, body_->offset + offset, shape, strides, body_->storage});
}

Tensor Tensor::detach() const { return tracked() ? window(shape(), strides()) : *this; }

Tensor Tensor::variable() const {
  if (!is_real(dtype()))
    bad_input("a gradient needs real numbers, got ", describe(dtype(), shape()));
  Tensor leaf = window(shape(), strides());
  leaf.body_->node = new Node(leaf.body_->number);
  return leaf;
}

Tensor Tensor::without_storage() const {
  return of_value({dtype(), body_->backend, 0, shape(), strides(), {}}, body_->node);
}

// ---- Rounded -----------------------------------------------------------------------------------

// A bf16 copy, dense in x's memory order; broadcast dimensions stay broadcast.
Tensor Tensor::rounded_copy(const Tensor& x) {
  Shape once = x.shape();
  for (int i = 0; i < x.rank(); ++i)
    if (x.strides()[i] == 0) once[i] = std::min<Index>(1, once[i]);
  Strides strides = dense_strides(once, memory_order(once, x.strides()));
  const Tensor made = empty_strided(once, strides, Dtype::bf16, x.backend());
  made.backend().copy(x.window(once, x.strides()).view(), made.view());
  for (int i = 0; i < x.rank(); ++i)
    if (x.strides()[i] == 0) strides[i] = 0;
  return made.window(x.shape(), strides);
}

Tensor Tensor::rounded() const {
  if (dtype() == Dtype::bf16) return *this;
  if (dtype() != Dtype::f32)
    bad_input("only f32 is rounded to bf16, got ", describe(dtype(), shape()));
  Node* const node = body_->node;
  // No cache for a leaf, which may be written to between two graphs, and none where the graph holds
  // the f32 storage anyway: a second copy would take more memory.
  if (!node || !node->record || node->record->holds_storage)
    return of_value(*rounded_copy(*this).body_, node);
  const Value* there = node->rounded.load(std::memory_order_acquire);
  if (!there) {
    auto made = std::make_unique<const Value>(*rounded_copy(*this).body_);
    // Another thread may have stored its copy first.
    if (node->rounded.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel))
      there = made.release();
  }
  return of_value(*there, node);
}

}  // namespace tete
