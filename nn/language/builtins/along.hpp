// Functions along one dimension that the result keeps: softmax over it, noise shared along it.
#pragma once
#include "nn/language/builtins/builtin.hpp"

namespace tete {

// Reads the argument and gives the result its names; the key's dimension must be among them.
void check_along(Reading& reading, const ExprText& e, Node& node);

// A norm over a sequence combines all its positions.
bool combines_along(LeakFinder& leaks, const Node& node, const std::vector<Flow>& args);

}  // namespace tete
