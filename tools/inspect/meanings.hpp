// Meanings: what a map is, in words that follow from the text of its attention.
#pragma once
#include "tools/inspect/roles.hpp"

namespace tete {

// "L is J, its heads mixed by P_l. It is the logit of W." `map` is its number in roles.maps.
std::string meaning_of(const Checked& program, const Roles& roles, int map);

}  // namespace tete
