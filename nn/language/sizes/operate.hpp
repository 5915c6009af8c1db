// Operators of the notation, on numbers and on tensors. Truth is 0 or 1; "/" is real division.
#pragma once
#include <cmath>
#include <type_traits>

#include "core/ops.hpp"
#include "nn/language/notation.hpp"

namespace tete {

// Comparisons carry no gradient. An operator of one operand takes `a`.
template <class X>
X operate(Operator op, const X& a, const X& b) {
  using std::floor, std::max, std::pow;
  constexpr bool is_number = std::is_arithmetic_v<X>;
  const auto below = [](const X& p, const X& q) -> X {
    if constexpr (is_number) return p < q;
    else return less(p.detach(), q.detach());
  };
  const auto same = [](const X& p, const X& q) -> X {
    if constexpr (is_number) return p == q;
    else return equal(p.detach(), q.detach());
  };
  switch (op) {
    case Operator::either:
      return max(a, b);
    case Operator::both:
    case Operator::multiply:
      return a * b;
    case Operator::negation:
      return 1.0 - a;
    case Operator::less:
      return below(a, b);
    case Operator::less_equal:
      return 1.0 - below(b, a);
    case Operator::greater:
      return below(b, a);
    case Operator::greater_equal:
      return 1.0 - below(a, b);
    case Operator::equal:
      return same(a, b);
    case Operator::unequal:
      return 1.0 - same(a, b);
    case Operator::add:
      return a + b;
    case Operator::subtract:
      return a - b;
    case Operator::divide:
      return a / b;
    case Operator::floor_divide:
      return floor(a / b);
    case Operator::modulo:
      return a - floor(a / b) * b;
    case Operator::minus:
      return -a;
    case Operator::power:
      return pow(a, b);
  }
  return {};
}

}  // namespace tete
