// Gradient norms: the length of all gradients as one vector, and its limit.
#pragma once
#include "core/tensor.hpp"

namespace tete {

// √ΣΣ x² over all tensors; empty ones count as zero.
double global_norm(const Tensors& tensors);
// The factor that brings a norm down to the limit, as PyTorch's clip_grad_norm_ has it:
// min(1, limit / (norm + 1e-6)); 1 where limit is 0.
double clip_factor(double norm, double limit);
// Multiplies all gradients by clip_factor(norm, limit); returns the norm before.
double clip_by_global_norm(Tensors& grads, double limit);

}  // namespace tete
