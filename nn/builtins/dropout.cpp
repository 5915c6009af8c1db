// dropout(x, shared=d): the call's rate and key (R14); the identity outside training.
#include "nn/builtins/along.hpp"

namespace tete {

namespace {

// Noise of sample s is a function of the key and s alone: a batch may be cut anywhere.
Tensor noisy(const Value& x, int shared_axis, const Dropout& noise) {
  const Tensor& t = x.tensor;
  const uint64_t samples = x.batched ? static_cast<uint64_t>(t.size(0)) : 0;
  Shape shape = t.shape();
  if (shared_axis >= 0) shape[shared_axis] = 1;
  const auto count = static_cast<uint64_t>(element_count(shape));
  const uint64_t first = samples > 0 ? noise.first_sample * (count / samples) : 0;
  if (shared_axis < 0) return dropout(t, noise.rate, noise.key, first);
  const Tensor kept = dropout(Tensor::ones(shape, t.dtype()), noise.rate, noise.key, first);
  return t * broadcast(kept, t.shape());
}

Value run(Runner& runner, const Node& node) {
  Value x = runner.node(node.args[0]);
  const Dropout noise = runner.next_dropout();
  const int shared_axis = node.dim() >= 0 ? runner.axis_of(x, node.dim()) : -1;
  if (noise.rate > 0) x.tensor = noisy(x, shared_axis, noise);
  return x;
}

bool hides(LeakFinder&, const Node&, const std::vector<Flow>& args) { return args[0].hidden; }

constexpr KeyRow keys[] = {{"shared", KeyRow::Kind::dim, false}};

constexpr Builtin rows[] = {
    {.name = "dropout",
     .usage = "dropout(x, shared=d)",
     .meaning = "in training 0 with the call's probability, else x / (1 - probability); the noise "
                "does not vary along d",
     .keys = keys,
     .check = check_along,
     .run = run,
     .hides = hides},
};

}  // namespace

std::span<const Builtin> dropout_functions() { return rows; }

}  // namespace tete
