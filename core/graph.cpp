#include "core/graph.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace tete {

// ---- Records -----------------------------------------------------------------------------------

static thread_local RecordWatch* innermost_watch = nullptr;

RecordWatch::RecordWatch(Seen seen) : seen_(std::move(seen)), outer_(innermost_watch) {
  innermost_watch = this;
}
RecordWatch::~RecordWatch() { innermost_watch = outer_; }

class Recorder {
 public:
  // Gives `value` a node with this record. The node keeps the value's storage if the rule reads it.
  static Tensor attach(Record made, Tensor value) {
    // A new number: inputs may have been recorded after the value's memory was allocated.
    auto* const node = new Tensor::Node(Tensor::next_number());
    node->result = *value.body_;
    if (!made.saved.result) node->result.storage = {};
    node->record = std::make_unique<Record>(std::move(made));
    value.body_->node = node;
    return innermost_watch ? innermost_watch->seen_(value) : value;
  }
};

Tensor record(const char* op, Tensor value, Tensors inputs, Vjp vjp, Tensors kept, CodeLine rule,
              Saved saved) {
  const bool tracked = std::any_of(inputs.begin(), inputs.end(),
                                   [](const Tensor& in) { return in && in.tracked(); });
  if (!tracked) return value;
  if (value.tracked()) value = value.detach();  // it was made by another graph
  bool holds_storage = saved.result;
  for (const Tensor& in : inputs)
    holds_storage = holds_storage || (in && in.storage().same(value.storage()));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] && inputs[i].tracked() && !saved.input(i))
      inputs[i] = inputs[i].without_storage();
  return Recorder::attach(
      {op, std::move(inputs), std::move(kept), std::move(vjp), rule, saved, holds_storage},
      std::move(value));
}

Tensors with_storage(Tensors xs, std::span<const Tensor> known) {
  for (Tensor& x : xs) {
    if (!x || x.has_storage()) continue;
    const auto same = [&](const Tensor& each) { return each && each.same(x); };
    const auto found = std::find_if(known.begin(), known.end(), same);
    if (found != known.end()) x = *found;
  }
  return xs;
}

Tensor operator+(const Tensor& a, const Tensor& b);  // elementwise.cpp
void add_onto(const Tensor& x, const Tensor& y);     // fused.cpp

// ---- grad: from y backwards, newest tensor first ---------------------------------------------
//
// A tensor's number is larger than its inputs', so numbers are a topological order, and tensors
// older than the oldest x need no visit.
class Sweep {
 public:
  Sweep(const Tensor& y, std::span<const Tensor> xs, const GradOptions& options)
      : keep_graph_(options.keep_graph) {
    uint64_t oldest = y.number();
    for (const Tensor& x : xs) oldest = std::min(oldest, x.number());
    collect(y.body_->node, oldest);
    mark_needed(xs);
    if (options.on_ready) find_completions(xs);
    accumulate(y.body_->node, options.cotangent ? options.cotangent
                                                : Tensor::ones(y.shape(), y.dtype(), y.backend()));
  }

  void run(const std::function<void(size_t, const Tensor&)>& on_ready) {
    for (size_t s = steps_.size(); s-- > 0;) {
      if (steps_[s].leads_on && steps_[s].gradient) pass_on(steps_[s]);
      if (on_ready)
        for (const Completion& x : completions_[s])
          if (const Tensor& gradient = steps_[x.step].gradient) on_ready(x.number, gradient);
    }
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
    bool needed = false;    // true: an x, or computed from one
    bool leads_on = false;  // true: one of its inputs is needed
    bool is_x = false;
  };

  // An x, by its place among the xs and among the steps.
  struct Completion {
    size_t number, step;
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

  // A gradient is final once the oldest step that reads its x has passed on its own; that of y
  // itself, at once.
  void find_completions(std::span<const Tensor> xs) {
    std::vector<size_t> oldest_reader(steps_.size());
    std::iota(oldest_reader.begin(), oldest_reader.end(), size_t{0});
    for (size_t s = steps_.size(); s-- > 0;)
      if (steps_[s].node->record)
        for (const Tensor& input : steps_[s].node->record->inputs)
          if (is_needed(input)) oldest_reader[place_.at(input.body_->node)] = s;
    completions_.resize(steps_.size());
    for (size_t i = 0; i < xs.size(); ++i)
      if (const auto found = place_.find(xs[i].body_->node); found != place_.end())
        completions_[oldest_reader[found->second]].push_back({i, found->second});
  }

  void accumulate(Node* node, const Tensor& gradient) {
    Tensor& sum = steps_[place_.at(node)].gradient;
    if (!sum) sum = gradient;
    else if (!gradient.tracked() && sum.is_only_holder() && sum.is_dense()) add_onto(gradient, sum);
    else sum = sum + gradient;
  }

  void pass_on(Step& step) {
    const Record& record = *step.node->record;
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
    if (!step.is_x) step.gradient = {};  // it is not read again
  }

  bool keep_graph_;
  std::vector<Step> steps_;
  std::unordered_map<const Node*, size_t> place_;
  std::vector<std::vector<Completion>> completions_;  // by step
};

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
  sweep.run(options.on_ready);
  Tensors gradients;
  for (const Tensor& x : xs) gradients.push_back(sweep.gradient_of(x));
  return gradients;
}

}  // namespace tete
