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

template <Tensor (*f)(const Tensor&)>
Tensor each(In a) {
  return f(a.args[0]);
}

template <Tensor (*f)(const Tensor&, const Axes&, bool)>
Tensor fold(In a) {
  return f(a.args[0], Axes{a.axis}, false);
}

Tensor smallest(In a) { return -max(-a.args[0], Axes{a.axis}); }
Tensor rounded_down(In a) { return floor(a.args[0].detach()); }
Tensor clipped(In a) { return min(max(a.args[0], a.args[1]), a.args[2]); }
Tensor chosen(In a) { return select(a.args[0], a.args[1], a.args[2]); }

// clang-format off
constexpr Builtin table[] = {
    {.name = "einsum", .usage = "einsum(A[…], B[…], …)",
     .meaning = "the sum over every name that is not on the left",
     .form = Form::einsum, .most = 16},

    // Elementwise.
    {.name = "exp",      .usage = "exp(x)",      .meaning = "e^x",                              .apply = each<exp>},
    {.name = "log",      .usage = "log(x)",      .meaning = "the natural logarithm",            .apply = each<log>},
    {.name = "sqrt",     .usage = "sqrt(x)",     .meaning = "the square root",                  .apply = each<sqrt>},
    {.name = "sin",      .usage = "sin(x)",      .meaning = "the sine",                         .apply = each<sin>},
    {.name = "cos",      .usage = "cos(x)",      .meaning = "the cosine",                       .apply = each<cos>},
    {.name = "tanh",     .usage = "tanh(x)",     .meaning = "the hyperbolic tangent",           .apply = each<tanh>},
    {.name = "erf",      .usage = "erf(x)",      .meaning = "the error function",               .apply = each<erf>},
    {.name = "sigmoid",  .usage = "sigmoid(x)",  .meaning = "1 / (1 + e^-x)",                   .apply = each<sigmoid>},
    {.name = "softplus", .usage = "softplus(x)", .meaning = "log(1 + e^x)",                     .apply = each<softplus>},
    {.name = "relu",     .usage = "relu(x)",     .meaning = "x where it is positive, else 0",   .apply = each<relu>},
    {.name = "elu",      .usage = "elu(x)",      .meaning = "x where positive, else e^x - 1",   .apply = each<elu>},
    {.name = "silu",     .usage = "silu(x)",     .meaning = "x · sigmoid(x)",                   .apply = each<silu>},
    {.name = "gelu",     .usage = "gelu(x)",     .meaning = "x · Φ(x), by tanh",                .apply = each<gelu>},
    {.name = "gelu_erf", .usage = "gelu_erf(x)", .meaning = "x · Φ(x), exactly",                .apply = each<gelu_erf>},
    {.name = "abs",      .usage = "abs(x)",      .meaning = "x without its sign",
     .keeps_element = true, .apply = each<abs>},
    {.name = "floor",    .usage = "floor(x)",    .meaning = "the largest whole number not above x",
     .result = Element::whole, .apply = rounded_down},
    {.name = "clip",     .usage = "clip(x, low, high)", .meaning = "x, at least low and at most high",
     .least = 3, .most = 3, .keeps_element = true, .apply = clipped},
    {.name = "select",   .usage = "select(c, a, b)", .meaning = "a where c is true, else b",
     .least = 3, .most = 3, .keeps_element = true, .apply = chosen},

    // Along one dimension, which stays.
    {.name = "softmax", .usage = "softmax(x, reduced_dim=d, mask=V[…])",
     .meaning = "e^x / Σ e^x over d, of what is visible; where d is one of two sequence axes it "
                "takes the call's mask too",
     .form = Form::along, .dim_key = "reduced_dim", .takes_mask = true, .apply = soft},
    {.name = "log_softmax", .usage = "log_softmax(x, reduced_dim=d, mask=V[…])",
     .meaning = "x - log Σ e^x over d, of what is visible; what is hidden is 0",
     .form = Form::along, .dim_key = "reduced_dim", .takes_mask = true, .apply = log_soft},
    {.name = "layer_norm", .usage = "layer_norm(x, dim=d)",
     .meaning = "(x - mean) / √(variance + 1e-6) over d",
     .form = Form::along, .dim_key = "dim", .apply = layer},
    {.name = "rms_norm", .usage = "rms_norm(x, dim=d)", .meaning = "x / √(mean x² + 1e-6) over d",
     .form = Form::along, .dim_key = "dim", .apply = rms},
    {.name = "dropout", .usage = "dropout(x, shared=d)",
     .meaning = "in training 0 with the call's probability, else x / (1 - probability); the noise "
                "does not vary along d",
     .form = Form::along, .dim_key = "shared", .dim_required = false, .apply = noisy},

    // Over one dimension, which goes.
    {.name = "sum", .usage = "sum(X[…], reduced_dim=d)", .meaning = "the sum over d",
     .form = Form::reduction, .dim_key = "reduced_dim", .keeps_element = true, .apply = fold<sum>},
    {.name = "mean", .usage = "mean(X[…], reduced_dim=d)", .meaning = "the mean over d",
     .form = Form::reduction, .dim_key = "reduced_dim", .apply = fold<mean>},
    {.name = "max", .usage = "max(X[…], reduced_dim=d)", .meaning = "the largest over d",
     .form = Form::reduction, .dim_key = "reduced_dim", .keeps_element = true, .apply = fold<max>},
    {.name = "min", .usage = "min(X[…], reduced_dim=d)", .meaning = "the smallest over d",
     .form = Form::reduction, .dim_key = "reduced_dim", .keeps_element = true, .apply = smallest},
    {.name = "any", .usage = "any(X[…], reduced_dim=d)", .meaning = "whether one over d is true",
     .form = Form::reduction, .dim_key = "reduced_dim", .argument = Element::truth,
     .keeps_element = true, .apply = fold<max>},
    {.name = "logsumexp", .usage = "logsumexp(X[…], reduced_dim=d)", .meaning = "log Σ e^x over d",
     .form = Form::reduction, .dim_key = "reduced_dim", .apply = fold<logsumexp>},

    // Positions and the call's mask.
    {.name = "position", .usage = "position(n)", .meaning = "0, 1, … along a sequence",
     .form = Form::positions, .result = Element::whole},
    {.name = "index", .usage = "index(d)", .meaning = "0, 1, … along a dimension",
     .form = Form::positions, .result = Element::whole},
    {.name = "visible", .usage = "visible(n, m)",
     .meaning = "the call's mask as truth values; visible(m) is the padding of the memory alone",
     .form = Form::visible, .most = 2, .result = Element::truth},

    // By names.
    {.name = "gather", .usage = "gather(T[…, r, …], I, dim=r)",
     .meaning = "T at position I of r; names that both have align",
     .form = Form::gather, .least = 2, .most = 2, .dim_key = "dim", .keeps_element = true},
    {.name = "concat", .usage = "concat(A[…], B[…], dim=e)",
     .meaning = "A, then B, along the one dimension that each has of its own",
     .form = Form::concat, .least = 2, .most = 16, .dim_key = "dim", .keeps_element = true},
};
// clang-format on

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
