// Operators of the notation on numbers.
#pragma once
#include "nn/language/notation.hpp"

namespace tete {

// Truth is 0 or 1; "/" is real division. An operator of one operand takes `a`.
double operate(Operator op, double a, double b);

}  // namespace tete
