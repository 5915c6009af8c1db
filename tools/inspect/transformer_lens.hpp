// The names that TransformerLens's hooks have for the values of a model.
#pragma once
#include "tools/inspect/site.hpp"

namespace tete {

// The values of a model by TransformerLens's names, with its order of axes: heads stand before the
// queries ("blocks.0.attn.hook_pattern": [b, h, n, m]) or before the width of a head
// ("blocks.0.attn.hook_q": [b, n, h, d_k]). Slots give the names: what fills Attention is attn,
// Cross cross_attn, FeedForward mlp; each Norm of a block is the next ln; the sums that begin with
// the block's input are the residual stream. `seen` has all values of one call.
Activations as_in_transformer_lens(const Activations& seen, const Model& model);

// The values whose path or whose name in TransformerLens fits a pattern, by what fits. Fails
// (input) on a pattern that fits nothing; the error names the nearest. `theirs`: by
// TransformerLens's names.
Activations fitting(const std::vector<std::string>& patterns, const Activations& seen,
                    const Activations& theirs);

}  // namespace tete
