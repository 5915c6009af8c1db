// layer_norm(x, dim=d, eps=1e-6) and rms_norm(x, dim=d, eps=1e-6): the norms of core/normalize.cpp
// over any dimension, without parameters.
#include "nn/language/builtins/normalize.hpp"

#include "nn/language/builtins/builtin.hpp"

namespace tete {

bool is_norm(const Node& node) { return calls(node, "layer_norm") || calls(node, "rms_norm"); }
bool takes_bias(const Node& norm) { return calls(norm, "layer_norm"); }

namespace {

double epsilon_of(Runner& runner, const Node& norm) {
  const double epsilon = number_of_key(runner, norm, 1, norm_epsilon);
  if (!(epsilon >= 0)) fail_at({norm.keys[1].place}, "eps= is ", epsilon, ", expected 0 or more");
  return epsilon;
}

Tensor zeros_like(const Tensor& scale) {
  return Tensor::zeros(scale.shape(), scale.dtype(), scale.backend());
}

Value run(Runner& runner, const Node& node) {
  const Value x = runner.node(node.args[0]);
  const Tensor ones = Tensor::ones({runner.size(node.dim())}, x.tensor.dtype(), x.tensor.backend());
  return scaled_norm(runner, node, x, ones, {});
}

}  // namespace

// The norms of core are over the last dimension, so `dim` moves to the end and back.
Value scaled_norm(Runner& runner, const Node& norm, const Value& x, const Tensor& scale,
                  const Tensor& bias) {
  const double epsilon = epsilon_of(runner, norm);
  Names last = x.names.without(norm.dim());
  last.push_back(norm.dim());
  const Tensor from = runner.aligned(x, last, x.batched).tensor;
  const Tensor y = takes_bias(norm)
                       ? layer_norm(from, scale, bias ? bias : zeros_like(scale), epsilon)
                       : rms_norm(from, scale, epsilon);
  return runner.aligned({y, last, x.batched}, x.names, x.batched);
}

SumWithNorm sum_with_norm(Runner& runner, const Node& norm, const Tensor& a, const Tensor& b,
                          const Tensor& scale, const Tensor& bias) {
  Tensors vectors{scale};
  if (takes_bias(norm)) vectors.push_back(bias ? bias : zeros_like(scale));
  return sum_with_norm(a, b, vectors, epsilon_of(runner, norm));
}

namespace {

constexpr KeyRow keys[] = {{"dim", KeyKind::dim},
                           {.name = "eps", .kind = KeyKind::number, .required = false}};

constexpr Builtin rows[] = {
    {.usage = "layer_norm(x, dim=d, eps=1e-6)",
     .meaning = "(x - mean) / √(variance + eps) over d",
     .example = "Y[n, d] = layer_norm(X[n, d], dim=d)",
     .keys = keys,
     .check = check_along,
     .run = run,
     .flow = combines_along},
    {.usage = "rms_norm(x, dim=d, eps=1e-6)",
     .meaning = "x / √(mean x² + eps) over d",
     .example = "Y[n, d] = rms_norm(X[n, d], dim=d)",
     .keys = keys,
     .check = check_along,
     .run = run,
     .flow = combines_along},
};

}  // namespace

std::span<const Builtin> norm_functions() { return rows; }

}  // namespace tete
