// The gradient check of a variant: core/check/gradcheck.hpp for a text, with its names.
#pragma once
#include "attention/attention.hpp"
#include "core/check/gradcheck.hpp"

namespace tete {

struct AttentionCheck {
  Index batch = 2, queries = 3, memories = 5;  // odd and different: a mistaken size does not fit
  bool causal = false;                         // with as many queries as memories
  Index block = 0;  // queries of a block, as a call is computed (nn/tile/tile.hpp); 0: as a whole
  GradCheckOptions options = {};  // names and dimensions are the text's
};

// Checks the gradients of X[batch, n, d] and M[batch, m, d'] (of X alone if the variant attends to
// itself, or under a causal mask) and of every parameter that is learned, at random values. A fault
// is told by the statement, with its line in the text.
GradReport check_gradient(const std::shared_ptr<const Checked>& program,
                          const AttentionSizes& sizes, const AttentionCheck& check = {});

}  // namespace tete
