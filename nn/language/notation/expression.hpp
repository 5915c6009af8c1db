// Reads expressions and uses of tensors: the right of '='.
#pragma once
#include "nn/language/notation/tokens.hpp"

namespace tete {

// Reads X[n, d_X, h=(g s)]. An error without a name says that `what` was expected.
RefText read_ref(Tokens& in, std::string_view what);
// Fails on an expression nested so deep that a walk over it could overflow the stack.
ExprText read_expression(Tokens& in);

}  // namespace tete
