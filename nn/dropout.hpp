// Dropout in a model: the noise of each place is named by its path.
#pragma once
#include "nn/forward.hpp"

namespace tete {

// X[b, n, d_X] with dropout at `forward.dropout`; X itself outside training. Noise depends on the
// key, the path and the global number of the sample: a batch that is cut draws the same noise.
Tensor dropped(const Forward& forward, const std::string& path, const Tensor& X);

}  // namespace tete
