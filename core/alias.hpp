// alias: another name for a tensor.
#pragma once
#include "core/graph.hpp"

namespace tete {

// x, for a group of readers: their gradients are summed before the sum is added to x's others. So
// recomputed(f, {x}) has the bits of f({alias(x)}), whoever else reads x. Shares x's storage; x
// itself where it carries no gradient.
Tensor alias(const Tensor& x);

}  // namespace tete
