// Expressions and uses of tensors: what stands to the right of '='.
#pragma once
#include "nn/language/notation/tokens.hpp"

namespace tete {

// X[n, d_X, h=(g s)]. `what` is what was expected if no name stands here.
RefText read_ref(Tokens& in, std::string_view what);
// Fails where it is nested so deep that what walks it could overflow the stack.
ExprText read_expression(Tokens& in);

}  // namespace tete
