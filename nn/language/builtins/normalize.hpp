// The norms of the notation with a scale and a bias, which texts write as a product and a sum.
#pragma once
#include "nn/run/runner.hpp"

namespace tete {

// True for a call of layer_norm or rms_norm.
bool is_norm(const Node& node);
// True if the norm takes a bias in the same pass.
bool takes_bias(const Node& norm);
// norm(x) * scale[d] + bias[d], over the dimension d that `norm` names; without a bias if that is
// empty.
Value scaled_norm(Runner& runner, const Node& norm, const Value& x, const Tensor& scale,
                  const Tensor& bias);
// a + b and the same of that sum, over the last dimension, in one pass.
SumWithNorm sum_with_norm(Runner& runner, const Node& norm, const Tensor& a, const Tensor& b,
                          const Tensor& scale, const Tensor& bias);

}  // namespace tete
