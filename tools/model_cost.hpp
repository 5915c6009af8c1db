// The cost of a text at the sizes of the papers' tables, beside multi-head attention, and of a
// model.
#pragma once
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

// The sizes of a model that reads `context` tokens, or as many on each side where it has a source.
SizeTable sizes_at(const Model& model, Index context);
// One forward pass over so many.
Cost cost_of(const Model& model, Index context);

// "1,686,110,208"
std::string grouped(Index number);

}  // namespace tete
