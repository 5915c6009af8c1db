// Functions along one dimension that the result keeps: softmax over it, noise shared along it.
#pragma once
#include "nn/language/builtins/builtin.hpp"

namespace tete {

// Reads the argument and gives the result its names; the key's dimension must be among them.
void check_along(Reading& reading, const ExprText& e, Node& node);

// A norm over a sequence combines all its positions.
AxisPairs combines_along(FlowFinder& flow, const CallFlow& call);

}  // namespace tete
