// Facts that follow from a program's statements: heads, memory orders, each value's last use, leaks
// of hidden positions, and the tile.
#pragma once
#include "nn/language/check.hpp"

namespace tete {

// Marks every index that can be reached from a marked one along `next`.
void spread(std::vector<bool>& marked, const std::vector<std::vector<int>>& next);

// Fills in Dimension::head, CheckedValue::layout, ::uses and ::finished, Checked::leak and
// Checked::tile.
void analyse(Checked& program);

}  // namespace tete
