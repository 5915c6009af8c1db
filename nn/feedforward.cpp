#include "nn/feedforward.hpp"

namespace tete {

namespace {

Tensor identity(const Tensor& x) { return x; }
// λ (x > 0 ? x : α (eˣ - 1))
Tensor selu(const Tensor& x) {
  return 1.0507009873554805 * (relu(x) + 1.6732632423543772 * (elu(x) - relu(x)));
}

template <Unary op>
constexpr Activation one(const char* name, bool gated = false) {
  return {name, [](const Tensor& x) { return unary(op, x); }, gated, op};
}

constexpr Activation activations[] = {
    one<Unary::relu>("relu"),
    one<Unary::gelu>("gelu"),
    one<Unary::gelu_erf>("gelu_erf"),
    one<Unary::silu>("silu"),
    one<Unary::sigmoid>("sigmoid"),
    one<Unary::tanh>("tanh"),
    one<Unary::softplus>("softplus"),
    one<Unary::elu>("elu"),
    {"selu", selu},
    {"identity", identity},
    one<Unary::sigmoid>("glu", true),
    one<Unary::gelu>("geglu", true),
    one<Unary::relu>("reglu", true),
    one<Unary::silu>("swiglu", true),
    {"liglu", identity, true},
};

}  // namespace

const Activation& activation(const std::string& name) {
  if (const Activation* row = find_named(name, activations)) return *row;
  bad_input("unknown activation '", name, "'", choice(name, names_of_rows(activations)));
}

FeedForward::FeedForward(const Scope& scope, const Dim& width, Index d_ff,
                         const FeedForwardOptions& options)
    : path_(scope.path),
      activation_(activation(options.activation)),
      in_(scope.in("in"), width, {"d_ff", d_ff}, {.bias = options.bias}),
      out_(scope.in("out"), {"d_ff", d_ff}, width, {.bias = options.bias}) {
  if (activation_.gated)
    gate_.emplace_back(scope.in("gate"), width, Dim{"d_ff", d_ff},
                       LinearOptions{.bias = options.bias});
}

Tensor FeedForward::operator()(const Forward& forward, const Tensor& X) const {
  Tensor hidden = activation_.op && !forward.asks_for(path_ + "/pre")
                      ? in_(forward, X, *activation_.op)
                      : activation_.apply(forward.offer(path_, "pre", in_(forward, X)));
  for (const Linear& gate : gate_) hidden = hidden * forward.offer(path_, "gate", gate(forward, X));
  hidden = forward.offer(path_, "hidden", hidden);
  return out_(forward, dropped(forward, path_ + "/hidden", hidden));
}

}  // namespace tete
