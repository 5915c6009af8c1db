// What the heads of one attention do, as pictures: its maps, the lines between tokens, and what is
// said between heads; and what the model would say after each layer.
#pragma once
#include <string>

#include "tools/inspect/report.hpp"

namespace tete {

// Every head of a map, with the tokens on its axes where there is room for them.
std::string map_picture(const RunReport& run, const Site& site, const AttentionMap& map);

// For each head a line from every token to those that it attends to, as dark as the weight is
// large.
// "" where rows or columns of the weights are not tokens.
std::string tokens_picture(const RunReport& run, const Site& site);

// The maps in the order of the text, and between two of them the matrix through which the heads of
// one become those of the next: a wire an entry. "" where there is no map.
std::string talk_picture(const Site& site);

// The likeliest next token if the residual stream ended at each point; underlined: what does
// follow.
std::string lens_picture(const RunReport& run, const Frame& frame);

// A token's text as something to see: blanks have signs, and what cannot be printed, or would turn
// or mark its neighbours, has its number.
std::string visible(std::string_view token);

}  // namespace tete
