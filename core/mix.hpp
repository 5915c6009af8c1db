// Heads mixed by a matrix, and results in the memory order of an operand: what attend and
// mixed_softmax share.
#pragma once
#include "core/tensor.hpp"

namespace tete {

// x with one dimension mixed by P[dimension, others], in x's memory order; x itself without P.
Tensor mixed(const Tensor& x, int dimension, const Tensor& P);

// Returns how many heads these matrices lead to, one after the other, from so many; without data,
// a matrix changes nothing. Fails (input) unless each has the type and fits what it mixes.
Index mixed_heads(const char* operation, Dtype dtype, Index heads, const Tensors& matrices);

// Makes a tensor of x's shape but for one dimension, in x's memory order.
Tensor resized_like(const Tensor& x, int dimension, Index size);

// A view without data if there is no tensor.
View view_of(const Tensor& x);

}  // namespace tete
