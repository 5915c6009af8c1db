// Functions along one dimension, which stays: softmax over it, noise that is shared along it.
#pragma once
#include "nn/language/builtins/builtin.hpp"

namespace tete {

// The argument, with the names and elements of the result; the dimension of the key is among them.
void check_along(Reading& reading, const ExprText& e, Node& node);

// A norm over a sequence combines all its positions.
bool combines_along(LeakFinder& leaks, const Node& node, const std::vector<Flow>& args);

}  // namespace tete
