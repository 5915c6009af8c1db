// The softmax of the notation, where it is fused with what is written around it.
#pragma once
#include "nn/run/runner.hpp"

namespace tete {

// True for a call of softmax without extra_logit=.
bool is_plain_softmax(const Node& node);
// As Runner::shown_to_first has it; nothing for a softmax with a mask of its own.
std::optional<Index> shown_to_first(Runner& runner, const Node& softmax, int rows);
// The masks of the softmax, as one; no tensor where nothing is hidden.
Value mask_of_softmax(Runner& runner, const Node& softmax);

}  // namespace tete
