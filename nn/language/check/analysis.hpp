// What a checked program's statements tell about each other: heads and layouts, when a value is
// last used, and whether it reads what a causal mask hides.
#pragma once
#include "nn/language/check.hpp"

namespace tete {

// Marks all that `next` leads to from what is marked.
void spread(std::vector<bool>& marked, const std::vector<std::vector<int>>& next);

// Fills in Dimension::head, CheckedValue::layout and ::finished, and Checked::leak.
void analyse(Checked& program);

}  // namespace tete
