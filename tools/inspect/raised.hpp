// The tokens whose logits a head raises most, token by token of a text.
#pragma once
#include "tools/inspect/report.hpp"
#include "tools/inspect/stream_parts.hpp"
#include "tools/trained.hpp"

namespace tete {

// Adds them to the attentions whose heads' results are parts of the residual stream; nothing where
// the logits are no sum of its parts. `seen` has every value of the text's run.
void add_raised(const Trained& trained, const Activations& seen, std::vector<Site>& sites);

}  // namespace tete
