// Expressions of a text in one line of mathematics, without axes: "G·T + (1 − G)·W".
#pragma once
#include "tools/inspect/ties.hpp"

namespace tete {

// A value has the name under which it is watched; one without is what its statement says.
std::string expression(const Checked& program, const Aliases& aliases, const Node& node);
// The same as a factor: in parentheses if it is a sum.
std::string factor(const Checked& program, const Aliases& aliases, const Node& node);

}  // namespace tete
