// How parameters start: first values from their Initializers (spec D5), and rules that replace
// those.
#include <cmath>

#include "nn/param.hpp"

namespace tete {

namespace {

// Uniform in ±√(6 / (fan in + fan out)). The fans are the last two dimensions, each times the
// product of the leading ones (of a convolution: its receptive field).
double glorot_limit(const Shape& shape) {
  double receptive = 1;
  for (int i = 0; i + 2 < shape.size(); ++i) receptive *= static_cast<double>(shape[i]);
  const int rank = shape.size();
  const double out = rank > 0 ? static_cast<double>(shape[rank - 1]) : 1;
  const double in = rank > 1 ? static_cast<double>(shape[rank - 2]) : out;
  return std::sqrt(6 / (receptive * (in + out)));
}

Tensor uniform_between(double low, double high, const Shape& shape, Key key, Dtype dtype) {
  return random_uniform(shape, key, dtype) * (high - low) + low;
}

// Ones on the diagonal of a matrix that need not be square, zeros elsewhere.
Tensor identity(const ParamSpec& spec, Dtype dtype) {
  if (spec.shape.size() != 2)
    bad_input("parameter '", spec.name, "': an identity has two dimensions, got ", spec.shape);
  const Index rows = spec.shape[0], diagonal = std::min(rows, spec.shape[1]);
  return pad(one_hot(arange(diagonal), spec.shape[1], dtype), 0, 0, rows - diagonal);
}

Tensor drawn(const ParamSpec& spec, Key key, Dtype dtype) {
  const auto [kind, a, b] = spec.init;
  const Shape& shape = spec.shape;
  switch (kind) {
    case InitializerKind::normal:
      return random_normal(shape, key, dtype) * a;
    case InitializerKind::truncated_normal:
      return random_truncated_normal(shape, key, dtype) * a;
    case InitializerKind::uniform:
      return uniform_between(a, b, shape, key, dtype);
    case InitializerKind::glorot: {
      const double limit = glorot_limit(shape);
      return uniform_between(-limit, limit, shape, key, dtype);
    }
    case InitializerKind::constant:
      return Tensor::full(shape, a, dtype);
    case InitializerKind::zeros:
      return Tensor::zeros(shape, dtype);
    case InitializerKind::ones:
      return Tensor::ones(shape, dtype);
    case InitializerKind::identity:
      return identity(spec, dtype);
  }
  return {};
}

}  // namespace

Initializer gpt2_init(const ParamSpec& spec) {
  if (spec.shape.size() < 2 || !spec.init.is_spread()) return spec.init;
  if (mixes_heads(spec.dims)) return {InitializerKind::identity};
  return {InitializerKind::normal, 0.02};
}

InitRule init_rule(const std::string& style) {
  if (style == "t5" || style == "admin") return [](const ParamSpec& spec) { return spec.init; };
  if (style == "gpt2") return gpt2_init;
  const std::string styles[] = {"t5", "gpt2", "admin"};
  bad_input("unknown initialisation '", style, "'", suggestion(style, styles),
            " (there are t5, gpt2, admin)");
}

Tensor initial_value(const ParamSpec& spec, Key key, Dtype dtype) {
  const Tensor value = drawn(spec, key, dtype);
  return spec.layout.empty() ? value : with_layout(value, spec.layout);
}

}  // namespace tete
