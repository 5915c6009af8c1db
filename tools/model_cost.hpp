// The cost of a variant at the sizes of the papers' tables, beside multi-head attention, and in a
// model.
#pragma once
#include "attention/sites.hpp"
#include "nn/cost.hpp"
#include "nn/model.hpp"

namespace tete {

// The sizes of a T5-base layer where neither `given` nor the text says others: n = m = 512 for the
// first axes of X and M, 768 for their last, h = 12. A model reads 512 tokens, its decoder 114 of
// another sequence, of v = 32128 kinds. Fails on a name that the program does not have.
SizeTable paper_sizes(const std::shared_ptr<const Checked>& program, const SizesByName& given);

// Multi-head attention (d_k·h = d_X, d_v·h = d_M: then its cost is the same for any h) of the same
// sequences and widths; nothing where the program is not attention.
std::optional<Cost> multi_head_cost(const Checked& program, SizeTable& sizes,
                                    const CostOptions& options = {});

// One forward pass of a model over `context` tokens, or over as many on each side where there is an
// encoder. The decoder's own attention is causal. A stack has as many layers as `sites` has of it.
struct ModelCost {
  struct Part {
    std::string name;
    Formula formula;       // of one layer, where there are several; none where they differ
    Index multiplies = 0;  // of all layers
    // Made on the way of a gradient, in f32; masks and norms' statistics are not in it.
    size_t bytes = 0;
  };
  std::vector<Part> parts;
  Index multiplies = 0, visible = 0;  // visible: what the causal mask leaves of them
  size_t bytes = 0, tiled_bytes = 0;
};
ModelCost model_cost(const LanguageModelConfig& config, const ChosenSites& sites);
// The same for a model's text, without parts. A source is as long, too.
ModelCost model_cost(const Model& model, Index context);

}  // namespace tete
