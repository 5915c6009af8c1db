// Derivatives in a direction, from the same rules that gradients come from.
#pragma once
#include "core/graph.hpp"

namespace tete {

// Forward mode: how y changes as each of xs moves along the direction of its shape in `along`,
// Σ ∂y/∂x · v. y's shape; zeros where y depends on none of them. Differentiable again.
Tensor jvp(const Tensor& y, std::span<const Tensor> xs, std::span<const Tensor> along);

// The Hessian of a scalar y times a direction: how the gradient with respect to each of xs changes
// along it. One tensor for each x, of its shape; zeros where nothing depends.
Tensors hvp(const Tensor& y, std::span<const Tensor> xs, std::span<const Tensor> along);

}  // namespace tete
