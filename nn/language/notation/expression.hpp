// Reads expressions and uses of tensors: the right of '='.
#pragma once
#include <charconv>

#include "nn/language/notation/tokens.hpp"

namespace tete {

// True if the number is the whole of the token, and can be represented.
template <class Number>
bool is_number(const Token& token, Number& number) {
  const char* const last = token.text.data() + token.text.size();
  const auto [end, error] = std::from_chars(token.text.data(), last, number);
  return error == std::errc() && end == last;
}

// Reads X[n, d_X, h=(g s)]. An error without a name says that `what` was expected.
RefText read_ref(Tokens& in, std::string_view what);
// Fails on an expression nested so deep that a walk over it could overflow the stack.
ExprText read_expression(Tokens& in);

}  // namespace tete
