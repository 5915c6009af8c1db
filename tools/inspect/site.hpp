// Looks at one place in a model.
#pragma once
#include "tools/inspect/passage.hpp"
#include "tools/inspect/places.hpp"
#include "tools/inspect/roles.hpp"

namespace tete {

// All but its text and the effects of its heads, from everything that is at its path, and at its
// inputs', in `seen`.
Site look_at(const SitePlace& place, const Trained& trained, const Passage& passage,
             const Activations& seen);

// Its inputs, parameters and values under the names of its text, without a batch: tensors to run
// the text on, and what it makes of them.
NamedTensors tensors_of(const SitePlace& place, const Trained& trained, const Activations& seen);

// Fills in the loss without each head of what the site adds, minus the loss.
void add_ablation(const SitePlace& place, const Passage& passage, double loss, Site& site);

}  // namespace tete
