// dropout(x, shared=d): the call's rate and key (R14); the identity outside training.
#include "nn/language/builtins/dropout.hpp"

#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

// The rows of a whole value that a run has; along a dimension that shares its noise, one.
struct Part {
  Shape part, whole, start;
  uint64_t first = 0;  // the counter of the first sample's first number
};
// The part that the run has of a value of this shape, with these names behind the batch.
Part part_in(Runner& runner, const Shape& shape, const Names& names, int shared,
             const Dropout& noise) {
  Part x{shape, shape, Shape(shape.size(), 0)};
  const int batch = shape.size() - names.size();
  for (int i = 0; i < names.size(); ++i) {
    x.whole[batch + i] = runner.whole_size(names[i]);
    x.start[batch + i] = runner.block_start(names[i]);
  }
  if (const int at = names.find(shared); at >= 0)
    x.part[batch + at] = x.whole[batch + at] = 1, x.start[batch + at] = 0;
  // The noise of a sample depends on the key and its global number alone, so a batch may be cut
  // anywhere.
  const uint64_t samples = batch > 0 ? static_cast<uint64_t>(shape[0]) : 0;
  if (samples > 0)
    x.first = noise.first_sample * (static_cast<uint64_t>(element_count(x.whole)) / samples);
  return x;
}

// The dropout of ones[whole], of which only the rows [part] from `start` on are computed. From
// dimension `run` on, the counters of neighbours are consecutive.
Tensor noise_of(const Part& x, const Dropout& noise, Dtype dtype, Backend& on) {
  int run = x.part.size() - 1;
  while (run > 0 && x.part[run] == x.whole[run]) --run;
  Index length = 1, rows = 1;
  for (int i = 0; i < x.part.size(); ++i) (i < run ? rows : length) *= x.part[i];
  const Strides strides = row_major(x.whole);
  const Tensor kept = Tensor::empty(x.part, dtype, on), ones = Tensor::ones({length}, dtype, on);
  for (Index row = 0; row < rows; ++row) {
    uint64_t counter = x.first + static_cast<uint64_t>(x.start[run] * strides[run]);
    Index left = row;
    for (int i = run - 1; i >= 0; left /= x.part[i--])
      counter += static_cast<uint64_t>((x.start[i] + left % x.part[i]) * strides[i]);
    copy_onto(dropout(ones, noise.rate, noise.key, counter),
              kept.window({length}, {1}, row * length));
  }
  return kept;
}

Tensor noisy(Runner& runner, const Value& v, int shared, const Dropout& noise) {
  const Tensor& t = v.tensor;
  const Part x = part_in(runner, t.shape(), v.names, shared, noise);
  if (x.part == t.shape() && x.part == x.whole) return dropout(t, noise.rate, noise.key, x.first);
  return t * broadcast(noise_of(x, noise, t.dtype(), t.backend()), t.shape());
}

Value run(Runner& runner, const Node& node) {
  Value x = runner.node(node.args[0]);
  const Dropout noise = runner.next_dropout();
  if (noise.rate > 0) x.tensor = noisy(runner, x, node.dim(), noise);
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

Value dropout_noise(Runner& runner, int statement, const Names& names, int shared, bool batched) {
  const Dropout noise = runner.dropout_of(statement);
  if (noise.rate == 0) return {};
  const Part x = part_in(runner, runner.shape_of(names, batched), names, shared, noise);
  const Names left = names.without(shared);
  return {
      reshape(noise_of(x, noise, runner.dtype(), runner.device()), runner.shape_of(left, batched)),
      left, batched};
}

std::span<const Builtin> dropout_functions() { return rows; }

}  // namespace tete
