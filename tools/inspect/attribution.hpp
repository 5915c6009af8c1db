// Direct logit attribution: what each part of the residual stream adds to a logit.
#pragma once
#include "tools/inspect/places.hpp"
#include "tools/inspect/readings.hpp"

namespace tete {

// seen[i] has all values of text i, and what each head adds. The contributions add up to the logit,
// up to rounding.
Attribution attribution_of(const Trained& trained, const std::vector<TextReading>& readings,
                           const std::vector<Activations>& seen);

}  // namespace tete
