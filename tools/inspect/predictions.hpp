// The tokens that a model expects after each: at the end, and on the way there.
#pragma once
#include "tools/inspect/site.hpp"

namespace tete {

// The `likeliest` tokens of logits[n, v], or all where there are fewer.
Predictions predictions_of(const Passage& passage, const Tensor& logits, int likeliest);

// The final norm and the output layer applied to the residual stream wherever it is in `seen`.
LogitLens lens_of(const Trained& trained, const Passage& passage, const Activations& seen);

}  // namespace tete
