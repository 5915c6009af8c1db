// alias: another name for a tensor.
#pragma once
#include "core/graph.hpp"

namespace tete {

// x for one group of readers: their gradients are summed first, then added to the gradients of x's
// other readers. So recomputed(f, {x}) has the bits of f({alias(x)}), whatever else reads x. Shares
// x's storage; returns x itself if it carries no gradient.
Tensor alias(const Tensor& x);

}  // namespace tete
