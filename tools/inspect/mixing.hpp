// The matrices by which heads talk, as section 7.4 of the talking-heads paper looks at them.
#pragma once
#include <functional>

#include "tools/inspect/report.hpp"
#include "tools/inspect/roles.hpp"

namespace tete {

// A matrix with its determinant, condition and smallest |eigenvalue|.
Mixing mixing_of(std::string name, std::string path, std::string rows, std::string columns,
                 const Tensor& values);

// Those of a text, and the products of each before the softmax with each after it, where the heads
// between them are as many. `parameter` gives the path and the value of a parameter by its number
// in the program.
using ParameterAt = std::function<std::pair<std::string, Tensor>(int parameter)>;
std::vector<Mixing> all_mixing(const Checked& program, const Roles& roles,
                               const ParameterAt& parameter);

}  // namespace tete
