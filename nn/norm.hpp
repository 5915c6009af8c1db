// Norm: each vector x[d_X] brought to one size, then scaled by learned factors.
//   "layer": γ (x - μ)/√(σ² + ε) + ν        "rms": γ x/√(mean x² + ε)
// The root, [b, n, 1], is offered as "…/divisor"; it is computed only if a hook asks for it.
#pragma once
#include "nn/linear.hpp"

namespace tete {

class Norm {
 public:
  // kind: "layer" or "rms". The scale starts at one, the bias at zero.
  Norm(const Scope& scope, const std::string& kind, const Dim& width);
  Tensor operator()(const Forward& forward, const Tensor& X) const;
  // X + R and its norm, in one pass. The norm is empty if a hook asks for its divisor.
  std::pair<Tensor, Tensor> of_sum(const Forward& forward, const Tensor& X, const Tensor& R) const;

 private:
  std::string path_;
  ParamId scale_, bias_;
};

}  // namespace tete
