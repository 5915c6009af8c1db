// The value of a constant expression: a size, exactly in whole numbers, or a real number.
#include <cmath>
#include <limits>

#include "nn/language/sizes.hpp"
#include "nn/language/sizes/operate.hpp"

namespace tete {

// ---- Whole numbers, exactly -------------------------------------------------------------------

namespace {

constexpr double largest_size = 9e15;  // below 2^53: doubles hold whole numbers exactly
constexpr const char* not_a_size = "a size is made of + - * / // % ^, numbers and sizes";

Index floor_divide(Index a, Index b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

// base^exponent, or false where it does not fit.
bool raise(Index base, Index exponent, Index& result) {
  result = 1;
  if (base == -1) return result = exponent % 2 == 0 ? 1 : -1, true;
  for (Index i = 0; i < exponent && result != 0 && base != 1; ++i)
    if (__builtin_mul_overflow(result, base, &result)) return false;
  return true;
}

// a op b, exactly.
Index computed(const Node& node, Index a, Index b) {
  const auto fail = [&](const char* why) {
    fail_at({node.place}, a, " ", symbol(node.op), " ", b, why);
  };
  const bool divides = node.op == Operator::divide || node.op == Operator::floor_divide ||
                       node.op == Operator::modulo;
  if (divides && b == 0) fail(" divides by 0");
  Index result = 0;
  bool too_large = divides && a == std::numeric_limits<Index>::min() && b == -1;
  if (too_large) fail(" is too large for a size");
  switch (node.op) {
    case Operator::add:
      too_large = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::subtract:
    case Operator::minus:  // 0 - b
      too_large = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::multiply:
      too_large = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::divide:
      if (a % b != 0) fail(" is not a whole number; '//' rounds down");
      return a / b;
    case Operator::floor_divide:
      return floor_divide(a, b);
    case Operator::modulo:
      return a - floor_divide(a, b) * b;
    case Operator::power:
      if (b < 0) fail(" is not a whole number: the exponent is negative");
      too_large = !raise(a, b, result);
      break;
    default:
      fail_at({node.place}, not_a_size);
  }
  if (too_large) fail(" is too large for a size");
  return result;
}

}  // namespace

std::optional<Index> SizeTable::whole(const Node& node) {
  switch (node.kind) {
    case NodeKind::number:
      if (node.element != Element::whole)
        fail_at({node.place}, "a size is a whole number, written in digits alone");
      if (std::abs(node.number) > largest_size)
        fail_at({node.place}, "a size is at most ", largest_size);
      return static_cast<Index>(node.number);
    case NodeKind::size:
      return find(node.index);
    case NodeKind::causal:
      return causal(node) ? 1 : 0;
    case NodeKind::operation:
      break;
    default:
      fail_at({node.place}, not_a_size);
  }
  ++operators_;
  Index operands[2] = {0, 0};
  for (size_t i = 0; i < node.args.size(); ++i) {
    const std::optional<Index> operand = whole(node.args[i]);
    if (!operand) return --operators_, std::nullopt;
    operands[i] = *operand;
  }
  --operators_;
  if (node.op == Operator::minus) std::swap(operands[0], operands[1]);
  return computed(node, operands[0], operands[1]);
}

bool SizeTable::causal(const Node& node) const {
  if (!causal_)
    fail_at({node.place}, "'causal' is known in a call only, not where parameters are made");
  return *causal_;
}

// ---- Real numbers -----------------------------------------------------------------------------

double SizeTable::quantity(const Node& node) {
  switch (node.kind) {
    case NodeKind::number:
      return node.number;
    case NodeKind::size:
      return static_cast<double>(size(node.index));
    case NodeKind::causal:
      return causal(node) ? 1 : 0;
    case NodeKind::layer:
      return static_cast<double>(layer_);
    case NodeKind::call: {
      Tensors args;
      for (const Node& arg : node.args) args.push_back(Tensor::scalar(quantity(arg), Dtype::f64));
      return node.builtin->apply(args).item();
    }
    default:
      break;
  }
  const double a = quantity(node.args[0]);
  const double b = node.args.size() > 1 ? quantity(node.args[1]) : 0;
  return operate(node.op, a, b);
}

}  // namespace tete
