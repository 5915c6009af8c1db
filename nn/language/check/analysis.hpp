// Facts that follow from a program's statements: each value's last use, the flow, memory orders,
// leaks of hidden positions, and the tile.
#pragma once
#include "nn/language/check.hpp"

namespace tete {

// Marks every index that can be reached from a marked one along `next`.
void spread(std::vector<bool>& marked, const std::vector<std::vector<int>>& next);

// Fills in Dimension::head, CheckedValue::layout, ::uses and ::finished, Checked::flow, ::leak and
// ::tile.
void analyse(Checked& program);

}  // namespace tete
