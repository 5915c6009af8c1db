#include "core/tensor.hpp"

#include <algorithm>
#include <unordered_map>

namespace tete {

static uint64_t next_number() {
  static std::atomic<uint64_t> made{0};
  return made.fetch_add(1, std::memory_order_relaxed) + 1;
}

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
  if (!has_numbers())
    bad_input("a gradient rule reads ", describe(dtype(), shape()),
              ", whose numbers it did not ask record() to keep (Reads)");
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

// ---- Rounded -----------------------------------------------------------------------------------

// Dense in x's order in memory; what is repeated stays so.
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
  // A leaf may be written to between two graphs; and beside what lasts another would take more.
  if (!node || !node->record || node->record->lasts)
    return of_value(*rounded_copy(*this).body_, node);
  const Value* there = node->rounded.load(std::memory_order_acquire);
  if (!there) {
    auto made = std::make_unique<const Value>(*rounded_copy(*this).body_);
    // Another thread may have been faster.
    if (node->rounded.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel))
      there = made.release();
  }
  return of_value(*there, node);
}

// ---- Records -----------------------------------------------------------------------------------

static thread_local RecordWatch* innermost_watch = nullptr;

RecordWatch::RecordWatch(Seen seen) : seen_(std::move(seen)), outer_(innermost_watch) {
  innermost_watch = this;
}
RecordWatch::~RecordWatch() { innermost_watch = outer_; }

Tensor Tensor::without_numbers() const {
  return of_value({dtype(), body_->backend, 0, shape(), strides(), {}}, body_->node);
}

Tensor record(const char* op, Tensor value, Tensors inputs, Vjp vjp, Tensors kept, CodeLine rule,
              Reads reads) {
  const bool tracked = std::any_of(inputs.begin(), inputs.end(),
                                   [](const Tensor& in) { return in && in.tracked(); });
  if (!tracked) return value;
  if (value.tracked()) value = value.detach();  // what made it is another graph
  // Inputs may have been recorded after the memory of the value was there.
  auto* const node = new Tensor::Node(next_number());
  node->result = *value.body_;
  bool lasts = reads.result;
  for (const Tensor& in : inputs) lasts = lasts || (in && in.storage().same(value.storage()));
  if (!reads.result) node->result.storage = {};
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] && inputs[i].tracked() && !reads.input(i))
      inputs[i] = inputs[i].without_numbers();
  node->record.reset(new Tensor::Record{op, std::move(inputs), std::move(kept), std::move(vjp),
                                        rule, reads, lasts});
  value.body_->node = node;
  return innermost_watch ? innermost_watch->seen_(value) : value;
}

Tensors with_numbers(Tensors xs, std::span<const Tensor> known) {
  for (Tensor& x : xs) {
    if (!x || x.has_numbers()) continue;
    const auto same = [&](const Tensor& each) { return each && each.same(x); };
    const auto found = std::find_if(known.begin(), known.end(), same);
    if (found != known.end()) x = *found;
  }
  return xs;
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
    collect(y.body_->node, oldest);
    mark_needed(xs);
    accumulate(y.body_->node, options.cotangent ? options.cotangent
                                                : Tensor::ones(y.shape(), y.dtype(), y.backend()));
  }

  void run() {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step)
      if (step->leads_on && step->gradient) pass_on(*step);
  }

  Tensor gradient_of(const Tensor& x) const {
    const auto found = place_.find(x.body_->node);
    return found == place_.end() ? Tensor() : steps_[found->second].gradient;
  }

 private:
  using Node = Tensor::Node;
  struct Step {
    Node* node;
    Tensor gradient = {};
    bool needed = false;    // an x, or made from one
    bool leads_on = false;  // one of its inputs is needed
    bool is_x = false;
  };

  void collect(Node* y, uint64_t oldest) {
    std::vector<Node*> pending{y};
    place_.emplace(y, 0);
    while (!pending.empty()) {
      Node* const node = pending.back();
      pending.pop_back();
      steps_.push_back({node});
      if (!node->record) continue;
      for (const Tensor& input : node->record->inputs)
        if (input && input.tracked() && input.number() >= oldest &&
            place_.emplace(input.body_->node, 0).second)
          pending.push_back(input.body_->node);
    }
    std::sort(steps_.begin(), steps_.end(),
              [](const Step& a, const Step& b) { return a.node->number < b.node->number; });
    for (size_t i = 0; i < steps_.size(); ++i) place_[steps_[i].node] = i;
  }

  void mark_needed(std::span<const Tensor> xs) {
    for (const Tensor& x : xs)
      if (const auto found = place_.find(x.body_->node); found != place_.end())
        steps_[found->second].needed = steps_[found->second].is_x = true;
    for (Step& step : steps_) {
      if (!step.node->record) continue;
      for (const Tensor& input : step.node->record->inputs) step.leads_on |= is_needed(input);
      step.needed |= step.leads_on;
    }
  }

  bool is_needed(const Tensor& input) const {
    const auto found = input ? place_.find(input.body_->node) : place_.end();
    return found != place_.end() && steps_[found->second].needed;
  }

  void accumulate(Node* node, const Tensor& gradient) {
    Tensor& sum = steps_[place_.at(node)].gradient;
    sum = sum ? add(sum, gradient) : gradient;
  }
  static Tensor add(const Tensor& a, const Tensor& b);

  void pass_on(Step& step) {
    const Tensor::Record& record = *step.node->record;
    Tensors inputs = record.inputs;
    std::vector<bool> wanted;
    for (Tensor& input : inputs) {
      wanted.push_back(is_needed(input));
      if (input && !keep_graph_) input = input.detach();
    }
    const Tensor y = Tensor::of_value(step.node->result, keep_graph_ ? step.node : nullptr);
    const Tensors gradients = record.vjp(Backward{inputs, record.kept, y, step.gradient, wanted});
    for (size_t i = 0; i < inputs.size(); ++i)
      if (wanted[i] && gradients[i]) accumulate(record.inputs[i].body_->node, gradients[i]);
    if (!step.is_x) step.gradient = {};  // nobody reads it again
  }

  bool keep_graph_;
  std::vector<Step> steps_;
  std::unordered_map<const Node*, size_t> place_;
};

Tensor operator+(const Tensor& a, const Tensor& b);  // elementwise.cpp
Tensor Sweep::add(const Tensor& a, const Tensor& b) { return a + b; }

Tensors grad(const Tensor& y, std::span<const Tensor> xs, const GradOptions& options) {
  if (!y.tracked())
    bad_input("grad: the value depends on no tracked tensor; make one with variable()");
  if (!is_real(y.dtype()))
    bad_input("grad: expected f32 or f64, got ", describe(y.dtype(), y.shape()),
              "; cast it to f32 first");
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
