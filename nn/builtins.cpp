// The table of functions.
#include "nn/builtins.hpp"

namespace tete {

const char* describe(Element element) {
  switch (element) {
    case Element::real:
      return "real numbers";
    case Element::whole:
      return "whole numbers";
    case Element::truth:
      return "truth values";
  }
  return "";
}

namespace {

using In = const Application&;

Tensor smallest(In a) { return -max(-a.args[0], Axes{a.axis}); }

// Masked softmax gives 0 to what is hidden, and zeros to a row that sees nothing.
Tensor soft(In a) {
  return a.mask ? softmax(a.args[0], a.axis, a.mask) : softmax(a.args[0], a.axis);
}
Tensor log_soft(In a) {
  return a.mask ? log_softmax(a.args[0], a.axis, a.mask) : log_softmax(a.args[0], a.axis);
}

// norm(x) over any dimension: it moves to the end and back.
template <class Norm>
Tensor normalized(In a, Norm norm) {
  const Tensor& x = a.args[0];
  Axes order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != a.axis) order.push_back(i);
  order.push_back(a.axis);
  Axes back(x.rank(), 0);
  for (int i = 0; i < x.rank(); ++i) back[order[i]] = i;
  return permute(norm(permute(x, order)), back);
}
Tensor layer(In a) {
  return normalized(a, [](const Tensor& x) {
    const Shape width{x.shape().back()};
    return layer_norm(x, Tensor::ones(width, x.dtype()), Tensor::zeros(width, x.dtype()));
  });
}
Tensor rms(In a) {
  return normalized(
      a, [](const Tensor& x) { return rms_norm(x, Tensor::ones({x.shape().back()}, x.dtype())); });
}

// Noise of sample s is a function of the key and s alone: a batch may be cut anywhere.
Tensor noisy(In a) {
  const Tensor& x = a.args[0];
  if (a.rate == 0) return x;
  const uint64_t samples = a.by_sample ? static_cast<uint64_t>(x.size(0)) : 0;
  Shape shape = x.shape();
  if (a.axis >= 0) shape[a.axis] = 1;
  const auto count = static_cast<uint64_t>(element_count(shape));
  const uint64_t first = samples > 0 ? a.first * (count / samples) : 0;
  if (a.axis < 0) return dropout(x, a.rate, a.key, first);
  return x * broadcast(dropout(Tensor::ones(shape, x.dtype()), a.rate, a.key, first), x.shape());
}

constexpr Element real = Element::real, whole = Element::whole, truth = Element::truth;

#define EACH(name, meaning)                                                                  \
  {                                                                                          \
#name, #name "(x)", meaning, Form::each, 1, 1, nullptr, false, false, real, real, false, \
        [](In a) { return tete::name(a.args[0]); }                                           \
  }
#define REDUCE(name, meaning, argument, result, keeps, expression)                             \
  {                                                                                            \
#name, #name "(X[…], reduced_dim=d)", meaning, Form::reduction, 1, 1, "reduced_dim", true, \
        false, argument, result, keeps, [](In a) -> Tensor { return expression; }              \
  }

constexpr Builtin table[] = {
    {"einsum", "einsum(A[…], B[…], …)", "the sum over every name that is not on the left",
     Form::einsum, 1, 16, nullptr, false, false, real, real, false, nullptr},
    // Elementwise.
    EACH(exp, "e^x"),
    EACH(log, "the natural logarithm"),
    EACH(sqrt, "the square root"),
    EACH(sin, "the sine"),
    EACH(cos, "the cosine"),
    EACH(tanh, "the hyperbolic tangent"),
    EACH(erf, "the error function"),
    EACH(sigmoid, "1 / (1 + e^-x)"),
    EACH(softplus, "log(1 + e^x)"),
    EACH(relu, "x where it is positive, else 0"),
    EACH(elu, "x where it is positive, else e^x - 1"),
    EACH(silu, "x · sigmoid(x)"),
    EACH(gelu, "x · Φ(x), by tanh"),
    EACH(gelu_erf, "x · Φ(x), exactly"),
    {"abs", "abs(x)", "x without its sign", Form::each, 1, 1, nullptr, false, false, real, real,
     true, [](In a) { return abs(a.args[0]); }},
    {"floor", "floor(x)", "the largest whole number that is not above x", Form::each, 1, 1, nullptr,
     false, false, real, whole, false, [](In a) { return floor(a.args[0].detach()); }},
    {"clip", "clip(x, low, high)", "x, but at least low and at most high", Form::each, 3, 3,
     nullptr, false, false, real, real, true,
     [](In a) { return min(max(a.args[0], a.args[1]), a.args[2]); }},
    {"select", "select(c, a, b)", "a where c is true, else b", Form::each, 3, 3, nullptr, false,
     false, real, real, true, [](In a) { return select(a.args[0], a.args[1], a.args[2]); }},
    // Along one dimension.
    {"softmax", "softmax(x, reduced_dim=d, mask=V[…])",
     "e^x / Σ e^x over d, of what is visible; it takes the call's mask where d is one of two "
     "sequence axes",
     Form::along, 1, 1, "reduced_dim", true, true, real, real, false, soft},
    {"log_softmax", "log_softmax(x, reduced_dim=d, mask=V[…])", "x - log Σ e^x; hidden: 0",
     Form::along, 1, 1, "reduced_dim", true, true, real, real, false, log_soft},
    {"layer_norm", "layer_norm(x, dim=d)", "(x - mean) / √(variance + 1e-6) over d", Form::along, 1,
     1, "dim", true, false, real, real, false, layer},
    {"rms_norm", "rms_norm(x, dim=d)", "x / √(mean x² + 1e-6) over d", Form::along, 1, 1, "dim",
     true, false, real, real, false, rms},
    {"dropout", "dropout(x, shared=d)",
     "0 with the call's probability, else x / (1 - probability); in training only. The noise does "
     "not vary along d",
     Form::along, 1, 1, "shared", false, false, real, real, false, noisy},
    // Reductions.
    REDUCE(sum, "the sum over d", real, real, true, sum(a.args[0], Axes{a.axis})),
    REDUCE(mean, "the mean over d", real, real, false, mean(a.args[0], Axes{a.axis})),
    REDUCE(max, "the largest over d", real, real, true, max(a.args[0], Axes{a.axis})),
    REDUCE(min, "the smallest over d", real, real, true, smallest(a)),
    REDUCE(any, "whether one is true over d", truth, truth, false, max(a.args[0], Axes{a.axis})),
    REDUCE(logsumexp, "log Σ e^x over d", real, real, false, logsumexp(a.args[0], Axes{a.axis})),
    // Positions and the mask.
    {"position", "position(n)", "0, 1, … along a sequence", Form::positions, 1, 1, nullptr, false,
     false, whole, whole, false, nullptr},
    {"index", "index(d)", "0, 1, … along a dimension", Form::positions, 1, 1, nullptr, false, false,
     whole, whole, false, nullptr},
    {"visible", "visible(n, m)",
     "the call's mask as truth values; visible(m) is the padding of the memory alone",
     Form::visible, 1, 2, nullptr, false, false, whole, truth, false, nullptr},
    // By names.
    {"gather", "gather(T[…, r, …], I, dim=r)", "T at position I of r; names that both have align",
     Form::gather, 2, 2, "dim", true, false, real, real, true, nullptr},
    {"concat", "concat(A[…], B[…], dim=e)", "A, then B: the dimension that each has of its own",
     Form::concat, 2, 16, "dim", true, false, real, real, true, nullptr},
};
#undef EACH
#undef REDUCE

constexpr InitializerRow starts[] = {
    {"normal", "normal(deviation)", Initializer::Kind::normal, 1},
    {"truncated_normal", "truncated_normal(deviation)", Initializer::Kind::truncated_normal, 1},
    {"uniform", "uniform(low, high)", Initializer::Kind::uniform, 2},
    {"glorot", "glorot()", Initializer::Kind::glorot, 0},
    {"constant", "constant(value)", Initializer::Kind::constant, 1},
    {"zeros", "zeros()", Initializer::Kind::zeros, 0},
    {"ones", "ones()", Initializer::Kind::ones, 0},
    {"identity", "identity()", Initializer::Kind::identity, 0},
};

}  // namespace

std::span<const Builtin> builtins() { return table; }

const Builtin* find_builtin(std::string_view name) {
  for (const Builtin& row : table)
    if (row.name == name) return &row;
  return nullptr;
}

std::span<const InitializerRow> initializers() { return starts; }

}  // namespace tete
