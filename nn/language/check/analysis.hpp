// Facts that follow from a program's statements: each value's last use, the flow, memory orders,
// leaks of hidden positions, and the tile.
#pragma once
#include "nn/language/check.hpp"

namespace tete {

// Fills in Dimension::head, CheckedValue::layout, ::uses and ::finished, Checked::flow, ::leak and
// ::tile.
void analyse(Checked& program);

// By value: true for terms of the loss, and for what nothing else needs. Empty if there are none.
std::vector<bool> made_for_losses(const Checked& program);

}  // namespace tete
