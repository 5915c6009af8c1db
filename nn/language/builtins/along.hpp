// Functions along one dimension that the result keeps: softmax over it, noise shared along it.
#pragma once
#include "nn/language/builtins/builtin.hpp"

namespace tete {

// Reads the argument and gives the result its names; the key's dimension must be among them.
void check_along(Reading& reading, const ExprText& e, Node& node);

// A norm over a sequence combines all its positions, and nothing that is hidden is neutral to it.
void combines_along(FlowFinder& finder, const CallFlow& call, ValueFlow& out);

}  // namespace tete
