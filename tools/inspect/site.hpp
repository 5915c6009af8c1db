// The sites of a model, and what is seen at one of them.
#pragma once
#include <map>

#include "tools/inspect/passage.hpp"
#include "tools/inspect/roles.hpp"

namespace tete {

// Values by their paths.
using Activations = std::map<std::string, Tensor>;

// One attention of a model, and the paths of what it is given.
struct SitePlace {
  std::string path, stack;  // "decoder/3/self", "decoder"
  Index layer;
  bool cross, causal;
  ChosenAttention chosen;
  std::string X, M;
  int rows, columns;  // sequences
};
// In the order in which the model goes through them.
std::vector<SitePlace> places_of(const ChosenSites& sites);
// The path of a value of its text, by its number in program.values; of an input, the path of what
// the site is given.
std::string path_of(const SitePlace& place, int number);

// All but its text and the effects of its heads, from everything that is at its path, and at its
// inputs', in `seen`.
Site look_at(const SitePlace& place, const Trained& trained, const Passage& passage,
             const Activations& seen);

// Its inputs, parameters and values under the names of its text, without a batch: tensors to run
// the text on, and what it makes of them.
NamedTensors tensors_of(const SitePlace& place, const Trained& trained, const Activations& seen);

// The loss without each head of what the site adds, minus the loss: [heads].
Tensor ablation_of(const SitePlace& place, const Passage& passage, double loss);

}  // namespace tete
