// What a constant expression comes to: a size, exactly in whole numbers, or a real number.
#include <cmath>

#include "nn/sizes.hpp"

namespace tete {

// ---- Whole numbers, exactly -------------------------------------------------------------------

namespace {

Index floor_divide(Index a, Index b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

[[noreturn]] void too_large(const Node& node) { fail_at({node.place}, "this size is too large"); }

Index raised(const Node& node, Index base, Index exponent) {
  if (exponent < 0) fail_at({node.place}, "a size is a whole number; this exponent is negative");
  Index result = 1;
  for (Index i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) too_large(node);
    if (result == 0 || (base == 1)) break;
    if (i > 64 && base == -1) return exponent % 2 == 0 ? 1 : -1;
  }
  return result;
}

}  // namespace

std::optional<Index> SizeTable::whole(const Node& node) {
  switch (node.kind) {
    case Node::Kind::number:
      if (node.element != Element::whole || std::abs(node.number) > 9e15)
        fail_at({node.place}, "a size is a whole number");
      return static_cast<Index>(node.number);
    case Node::Kind::size:
      return find(node.index);
    case Node::Kind::causal:
      if (!causal_)
        fail_at({node.place}, "'causal' is known in a call only, not where parameters are made");
      return *causal_ ? 1 : 0;
    case Node::Kind::operation:
      break;
    default:
      fail_at({node.place}, "a size is made of + - * / // % ^, numbers and sizes");
  }
  Index operands[2] = {0, 0};
  for (size_t i = 0; i < node.args.size(); ++i) {
    const std::optional<Index> operand = whole(node.args[i]);
    if (!operand) return {};
    operands[i] = *operand;
  }
  return whole_operation(node, operands[0], operands[1]);
}

Index SizeTable::whole_operation(const Node& node, Index a, Index b) {
  Index result = 0;
  const bool divides = node.op == Operator::divide || node.op == Operator::floor_divide ||
                       node.op == Operator::modulo;
  if (divides && b == 0) fail_at({node.place}, text("this divides ", a, " by 0"));
  switch (node.op) {
    case Operator::add:
      if (__builtin_add_overflow(a, b, &result)) too_large(node);
      return result;
    case Operator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) too_large(node);
      return result;
    case Operator::multiply:
      if (__builtin_mul_overflow(a, b, &result)) too_large(node);
      return result;
    case Operator::divide:
      if (a % b != 0)
        fail_at({node.place}, text(a, " / ", b, " is not a whole number; '//' rounds down"));
      return a / b;
    case Operator::floor_divide:
      return floor_divide(a, b);
    case Operator::modulo:
      return a - floor_divide(a, b) * b;
    case Operator::minus:
      if (__builtin_sub_overflow(Index{0}, a, &result)) too_large(node);
      return result;
    case Operator::power:
      return raised(node, a, b);
    default:
      fail_at({node.place}, "a size is made of + - * / // % ^, numbers and sizes");
  }
}

// ---- Real numbers -----------------------------------------------------------------------------

double SizeTable::quantity(const Node& node) {
  switch (node.kind) {
    case Node::Kind::number:
      return node.number;
    case Node::Kind::size:
      return static_cast<double>(size(node.index));
    case Node::Kind::causal:
      if (!causal_)
        fail_at({node.place}, "'causal' is known in a call only, not where parameters are made");
      return *causal_ ? 1 : 0;
    case Node::Kind::call: {
      Tensors args;
      for (const Node& arg : node.args) args.push_back(Tensor::scalar(quantity(arg), Dtype::f64));
      return node.builtin->apply(args).item();
    }
    default:
      break;
  }
  const double a = quantity(node.args[0]);
  const double b = node.args.size() > 1 ? quantity(node.args[1]) : 0;
  switch (node.op) {
    case Operator::either:
      return a != 0 || b != 0;
    case Operator::both:
      return a != 0 && b != 0;
    case Operator::negation:
      return a == 0;
    case Operator::less:
      return a < b;
    case Operator::less_equal:
      return a <= b;
    case Operator::greater:
      return a > b;
    case Operator::greater_equal:
      return a >= b;
    case Operator::equal:
      return a == b;
    case Operator::unequal:
      return a != b;
    case Operator::add:
      return a + b;
    case Operator::subtract:
      return a - b;
    case Operator::multiply:
      return a * b;
    case Operator::divide:
      return a / b;
    case Operator::floor_divide:
      return std::floor(a / b);
    case Operator::modulo:
      return a - std::floor(a / b) * b;
    case Operator::minus:
      return -a;
    case Operator::power:
      return std::pow(a, b);
  }
  return 0;
}

}  // namespace tete
