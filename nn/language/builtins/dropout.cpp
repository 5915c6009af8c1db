// dropout(x, shared=d): the call's rate and key (R14); the identity outside training.
#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

// The noise of a sample depends on the key and its global number alone, so a batch may be cut
// anywhere.
uint64_t first_counter(const Value& x, const Shape& whole, const Dropout& noise) {
  const uint64_t samples = x.batched ? static_cast<uint64_t>(x.tensor.size(0)) : 0;
  return samples > 0 ? noise.first_sample * (static_cast<uint64_t>(element_count(whole)) / samples)
                     : 0;
}

// The dropout of ones[whole], of which only the rows [part] from `start` on are computed. From
// dimension `run` on, the counters of neighbours are consecutive.
Tensor noise_of(const Shape& part, const Shape& whole, const Shape& start, const Dropout& noise,
                uint64_t first, const Tensor& like) {
  int run = part.size() - 1;
  while (run > 0 && part[run] == whole[run]) --run;
  Index length = 1, rows = 1;
  for (int i = 0; i < part.size(); ++i) (i < run ? rows : length) *= part[i];
  const Strides strides = row_major(whole);
  const Tensor kept = Tensor::empty(part, like.dtype(), like.backend()),
               ones = Tensor::ones({length}, like.dtype(), like.backend());
  for (Index row = 0; row < rows; ++row) {
    uint64_t counter = first + static_cast<uint64_t>(start[run] * strides[run]);
    Index left = row;
    for (int i = run - 1; i >= 0; left /= part[i--])
      counter += static_cast<uint64_t>((start[i] + left % part[i]) * strides[i]);
    copy_onto(dropout(ones, noise.rate, noise.key, counter),
              kept.window({length}, {1}, row * length));
  }
  return kept;
}

Tensor noisy(Runner& runner, const Value& x, int shared_axis, const Dropout& noise) {
  const Tensor& t = x.tensor;
  Shape part = t.shape(), whole = part, start(part.size(), 0);
  for (int i = 0; i < x.names.size(); ++i) {
    const int axis = runner.axis_of(x, x.names[i]);
    whole[axis] = runner.whole_size(x.names[i]), start[axis] = runner.block_start(x.names[i]);
  }
  if (shared_axis >= 0) part[shared_axis] = whole[shared_axis] = 1, start[shared_axis] = 0;
  const uint64_t first = first_counter(x, whole, noise);
  if (part == t.shape() && part == whole) return dropout(t, noise.rate, noise.key, first);
  return t * broadcast(noise_of(part, whole, start, noise, first, t), t.shape());
}

Value run(Runner& runner, const Node& node) {
  Value x = runner.node(node.args[0]);
  const Dropout noise = runner.next_dropout();
  const int shared_axis = node.dim() >= 0 ? runner.axis_of(x, node.dim()) : -1;
  if (noise.rate > 0) x.tensor = noisy(runner, x, shared_axis, noise);
  return x;
}

// Noise leaves zeros alone.
void flow(FlowFinder&, const CallFlow& call, ValueFlow& out) { keep_hidden_zeros(call, out); }

constexpr KeyRow keys[] = {{"shared", KeyKind::dim, false}};

constexpr Builtin rows[] = {
    {.usage = "dropout(x, shared=d)",
     .meaning = "in training 0 with the call's probability, else x / (1 - probability); the noise "
                "does not vary along d",
     .example = "Y[n, d] = dropout(X[n, d], shared=n)",
     .keys = keys,
     .combines_positions = false,  // noise shared by queries is the same in every block
     .check = check_along,
     .run = run,
     .flow = flow},
};

}  // namespace

std::span<const Builtin> dropout_functions() { return rows; }

}  // namespace tete
