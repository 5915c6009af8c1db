// The call's mask in the candidate's tensors.
#pragma once
#include "nn/against/candidate.hpp"

namespace tete {

// True for the entries of x that the mask hides, row-major, if x is a large negative number in all
// of them: logits that were saved with the mask applied. Their softmax ignores these entries.
// Otherwise empty.
std::vector<bool> masked_already(const Candidate& candidate, int value, const Tensor& x,
                                 Evaluation& run);

// The run's mask in x's shape: 1 where a query may attend. `dims` are x's.
Tensor visible_like(const Tensor& x, const Names& dims, Evaluation& run);

}  // namespace tete
