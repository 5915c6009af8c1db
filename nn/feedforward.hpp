// FeedForward: Y = act(X W_in) W_out; gated: Y = (act(X W_in) ⊙ X W_gate) W_out.
#pragma once
#include <optional>

#include "nn/dropout.hpp"
#include "nn/linear.hpp"

namespace tete {

// One row of the table of activations (feedforward.cpp).
struct Activation {
  const char* name;
  Tensor (*apply)(const Tensor& x);
  bool gated = false;
  std::optional<Unary> op = {};  // empty unless it is one operation
};
// relu gelu gelu_erf silu sigmoid tanh softplus elu selu identity, and gated glu geglu reglu swiglu
// liglu. Fails on another name, with the nearest.
const Activation& activation(const std::string& name);

struct FeedForwardOptions {
  std::string activation = "relu";
  bool bias = false;
};

class FeedForward {
 public:
  FeedForward(const Scope& scope, const Dim& width, Index d_ff,
              const FeedForwardOptions& options = {});
  // Dropout is on the hidden layer, which is offered as "…/hidden" before dropout and as "…/pre"
  // before the activation; a gate's factor is offered as "…/gate".
  Tensor operator()(const Forward& forward, const Tensor& X) const;

 private:
  std::string path_;
  const Activation& activation_;
  Linear in_;
  std::vector<Linear> gate_;  // one or none
  Linear out_;
};

}  // namespace tete
