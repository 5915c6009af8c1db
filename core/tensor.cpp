#include "core/tensor.hpp"

#include <algorithm>
#include <unordered_map>

namespace tete {

Tensor::Body* Tensor::new_body() {
  static std::atomic<uint64_t> made{0};
  Body* body = new Body;
  body->number = made.fetch_add(1, std::memory_order_relaxed) + 1;
  return body;
}

// Releasing a result may release its inputs, theirs, and so on: a chain of two million would
// overflow the stack if each called the next. The bodies that wait form a list in place.
void Tensor::release(Body* body) noexcept {
  body->next = nullptr;
  while (body) {
    Body* const dead = body;
    body = dead->next;
    if (dead->record) {
      for (Tensor& input : dead->record->inputs) {
        Body* const held = std::exchange(input.body_, nullptr);
        if (held && held->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
          held->next = std::exchange(body, held);
      }
    }
    delete dead;
  }
}

Tensor Tensor::empty(const Shape& shape, Dtype dtype, Backend& on) {
  return empty_strided(shape, row_major(shape), dtype, on);
}

Tensor Tensor::empty_strided(const Shape& shape, const Strides& strides, Dtype dtype, Backend& on) {
  Tensor made(*new_body());
  made.body_->dtype = dtype;
  made.body_->shape = shape;
  made.body_->strides = strides;
  made.body_->storage = Storage(on, static_cast<size_t>(element_count(shape)) * size_of(dtype));
  return made;
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
Tensor Tensor::of(const Shape& shape, std::span<const T> values) {
  Tensor made = empty(shape, dtype_of<T>());
  if (static_cast<Index>(values.size()) != made.size())
    bad_input("a tensor of shape ", shape, " has ", made.size(), " elements, but ", values.size(),
              " values were given");
  std::copy(values.begin(), values.end(), made.view().as<T>());
  return made;
}
template Tensor Tensor::of(const Shape&, std::span<const float>);
template Tensor Tensor::of(const Shape&, std::span<const double>);
template Tensor Tensor::of(const Shape&, std::span<const int64_t>);

View Tensor::view() const {
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
  Tensor flat = empty(shape(), dtype_of<T>());
  backend().copy(view(), flat.view());
  const T* first = flat.view().template as<T>();
  return std::vector<T>(first, first + size());
}
template std::vector<float> Tensor::values() const;
template std::vector<double> Tensor::values() const;
template std::vector<int64_t> Tensor::values() const;

double Tensor::item() const {
  if (size() != 1)
    bad_input("item: expected a tensor with one element, got ", describe(dtype(), shape()));
  return values<double>()[0];
}

Tensor Tensor::window(const Shape& shape, const Strides& strides, Index offset) const {
  Tensor made(*new_body());
  made.body_->dtype = dtype();
  made.body_->shape = shape;
  made.body_->strides = strides;
  made.body_->offset = body_->offset + offset;
  made.body_->storage = body_->storage;
  return made;
}

Tensor Tensor::detach() const { return tracked() ? window(shape(), strides()) : *this; }

Tensor Tensor::variable() const {
  if (!is_real(dtype()))
    bad_input("a gradient needs real numbers, got ", describe(dtype(), shape()));
  Tensor leaf = window(shape(), strides());
  leaf.body_->tracked = true;
  return leaf;
}

static thread_local RecordWatch* innermost_watch = nullptr;

RecordWatch::RecordWatch(Seen seen) : seen_(std::move(seen)), outer_(innermost_watch) {
  innermost_watch = this;
}
RecordWatch::~RecordWatch() { innermost_watch = outer_; }

Tensor record(const char* op, Tensor value, Tensors inputs, Vjp vjp, Tensors kept, CodeLine rule) {
  const bool tracked = std::any_of(inputs.begin(), inputs.end(),
                                   [](const Tensor& in) { return in && in.tracked(); });
  if (!tracked) return value;
  value.body_->tracked = true;
  value.body_->record.reset(
      new Tensor::Record{op, std::move(inputs), std::move(kept), std::move(vjp), rule});
  return innermost_watch ? innermost_watch->seen_(value) : value;
}

// ---- grad: from y backwards, newest tensor first ---------------------------------------------
//
// A tensor's number is larger than its inputs', so numbers are a topological order, and nothing
// older than the oldest x can matter.
class Sweep {
 public:
  Sweep(const Tensor& y, std::span<const Tensor> xs, const GradOptions& options)
      : keep_graph_(options.keep_graph) {
    uint64_t oldest = y.number();
    for (const Tensor& x : xs) oldest = std::min(oldest, x.number());
    collect(y.body_, oldest);
    mark_needed(xs);
    accumulate(y.body_, options.cotangent ? options.cotangent
                                          : Tensor::ones(y.shape(), y.dtype(), y.backend()));
  }

  void run() {
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
      if (node->leads_on && node->gradient) pass_on(*node);
  }

  Tensor gradient_of(const Tensor& x) const {
    const auto found = place_.find(x.body_);
    return found == place_.end() ? Tensor() : nodes_[found->second].gradient;
  }

 private:
  using Body = Tensor::Body;
  struct Node {
    Body* body;
    Tensor gradient = {};
    bool needed = false;    // an x, or made from one
    bool leads_on = false;  // one of its inputs is needed
    bool is_x = false;
  };

  void collect(Body* y, uint64_t oldest) {
    std::vector<Body*> pending{y};
    place_.emplace(y, 0);
    while (!pending.empty()) {
      Body* const body = pending.back();
      pending.pop_back();
      nodes_.push_back({body});
      if (!body->record) continue;
      for (const Tensor& input : body->record->inputs)
        if (input && input.tracked() && input.number() >= oldest &&
            place_.emplace(input.body_, 0).second)
          pending.push_back(input.body_);
    }
    std::sort(nodes_.begin(), nodes_.end(),
              [](const Node& a, const Node& b) { return a.body->number < b.body->number; });
    for (size_t i = 0; i < nodes_.size(); ++i) place_[nodes_[i].body] = i;
  }

  void mark_needed(std::span<const Tensor> xs) {
    for (const Tensor& x : xs)
      if (const auto found = place_.find(x.body_); found != place_.end())
        nodes_[found->second].needed = nodes_[found->second].is_x = true;
    for (Node& node : nodes_) {
      if (!node.body->record) continue;
      for (const Tensor& input : node.body->record->inputs) node.leads_on |= is_needed(input);
      node.needed |= node.leads_on;
    }
  }

  bool is_needed(const Tensor& input) const {
    const auto found = place_.find(input.body_);
    return found != place_.end() && nodes_[found->second].needed;
  }

  void accumulate(Body* body, const Tensor& gradient) {
    Tensor& sum = nodes_[place_.at(body)].gradient;
    sum = sum ? add(sum, gradient) : gradient;
  }
  static Tensor add(const Tensor& a, const Tensor& b);

  void pass_on(Node& node) {
    const Tensor::Record& record = *node.body->record;
    Tensors inputs = record.inputs;
    std::vector<bool> wanted;
    for (Tensor& input : inputs) {
      wanted.push_back(input && is_needed(input));
      if (input && !keep_graph_) input = input.detach();
    }
    node.body->references.fetch_add(1, std::memory_order_relaxed);
    Tensor y{*node.body};
    if (!keep_graph_) y = y.detach();
    const Tensors gradients = record.vjp(Backward{inputs, record.kept, y, node.gradient, wanted});
    for (size_t i = 0; i < inputs.size(); ++i)
      if (wanted[i] && gradients[i]) accumulate(record.inputs[i].body_, gradients[i]);
    if (!node.is_x) node.gradient = {};  // nobody reads it again
  }

  bool keep_graph_;
  std::vector<Node> nodes_;
  std::unordered_map<const Body*, size_t> place_;
};

Tensor operator+(const Tensor& a, const Tensor& b);  // elementwise.cpp
Tensor Sweep::add(const Tensor& a, const Tensor& b) { return a + b; }

Tensors grad(const Tensor& y, std::span<const Tensor> xs, const GradOptions& options) {
  if (!y.tracked())
    bad_input("grad: the value depends on no tracked tensor; make one with variable()");
  if (options.cotangent && !(options.cotangent.shape() == y.shape()))
    bad_input("grad: the cotangent must have the value's shape ", y.shape(), ", got ",
              options.cotangent.shape());
  Sweep sweep(y, xs, options);
  sweep.run();
  Tensors gradients;
  for (const Tensor& x : xs) gradients.push_back(sweep.gradient_of(x));
  return gradients;
}

}  // namespace tete
