// layer_norm(x, dim=d, eps=1e-6) and rms_norm(x, dim=d, eps=1e-6): the norms of core/normalize.cpp
// over any dimension, without parameters.
#include "nn/language/builtins/along.hpp"

namespace tete {

namespace {

Tensor layer(const Tensor& x, double epsilon) {
  const Shape width{x.shape().back()};
  return layer_norm(x, Tensor::ones(width, x.dtype(), x.backend()),
                    Tensor::zeros(width, x.dtype(), x.backend()), epsilon);
}
Tensor rms(const Tensor& x, double epsilon) {
  return rms_norm(x, Tensor::ones({x.shape().back()}, x.dtype(), x.backend()), epsilon);
}

// The norms of core are over the last dimension, so `dim` moves to the end and back.
template <Tensor (*norm)(const Tensor&, double)>
Value run(Runner& runner, const Node& node) {
  const Value x = runner.node(node.args[0]);
  const double epsilon = number_of_key(runner, node, 1, norm_epsilon);
  if (!(epsilon >= 0))
    fail_at({node.keys[1].place}, text("eps= is ", epsilon, ", expected 0 or more"));
  Names last = x.names.without(node.dim());
  last.push_back(node.dim());
  const Tensor y = norm(runner.aligned(x, last, x.batched).tensor, epsilon);
  return runner.aligned({y, last, x.batched}, x.names, x.batched);
}

constexpr KeyRow keys[] = {{"dim", KeyKind::dim},
                           {.name = "eps", .kind = KeyKind::number, .required = false}};

constexpr Builtin rows[] = {
    {.name = "layer_norm",
     .usage = "layer_norm(x, dim=d, eps=1e-6)",
     .meaning = "(x - mean) / √(variance + eps) over d",
     .example = "Y[n, d] = layer_norm(X[n, d], dim=d)",
     .keys = keys,
     .check = check_along,
     .run = run<layer>,
     .flow = combines_along},
    {.name = "rms_norm",
     .usage = "rms_norm(x, dim=d, eps=1e-6)",
     .meaning = "x / √(mean x² + eps) over d",
     .example = "Y[n, d] = rms_norm(X[n, d], dim=d)",
     .keys = keys,
     .check = check_along,
     .run = run<rms>,
     .flow = combines_along},
};

}  // namespace

std::span<const Builtin> norm_functions() { return rows; }

}  // namespace tete
