// Dropout in a model: the noise of each place is named by its path.
#pragma once
#include "nn/forward.hpp"

namespace tete {

// Every element has noise of its own, or all positions of a sample share it: then a
// channel is dropped for a whole sequence, as T5 does (spec D4).
enum class Noise : uint8_t { each, shared_over_sequence };

// X[b, n, d_X] with dropout at `forward.dropout`; X itself outside training. Noise depends on the
// key, the path and the global number of the sample: a batch that is cut draws the same noise.
Tensor dropped(const Forward& forward, const std::string& path, const Tensor& X,
               Noise noise = Noise::each);

}  // namespace tete
