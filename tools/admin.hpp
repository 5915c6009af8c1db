// Admin: scales of residuals that one pass over a batch sets. Liu et al. 2020, section 4.1 (spec
// D6).
#pragma once
#include "nn/model.hpp"
#include "train/data.hpp"

namespace tete {

// Sets the scales among `values`: a scale is a parameter omega that starts at one, in a statement
// `omega * x + f` of a repeated block. The first of a stack stays one; each other one becomes
// sqrt(Var(omega x) + Var(f)) of the one before, over all elements of a training pass, with what is
// before it scaled already. Fails (input) if the text has none.
void profile_scales(const Model& model, const Batch& batch, double dropout, Key key,
                    Tensors& values);

}  // namespace tete
