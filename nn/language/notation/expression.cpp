#include "nn/language/notation/expression.hpp"

namespace tete {

namespace {

constexpr int deepest = 200;  // nesting of an expression

AxisText read_axis(Tokens& in) {
  AxisText a;
  if (in.now().kind == TokenKind::number) {
    const Token& token = in.take();
    a.word.place = token.place;
    if (!is_number(token, a.pick))
      fail_at({token.place}, "'", token.text,
              "' is not the number of an element, a whole one from 0");
    return a;
  }
  a.causal = in.takes("causal");
  a.word = in.name("a dimension");
  if (in.takes("<=")) {
    a.bound = in.name("the dimension that is the largest length");
  } else if (in.takes("=")) {
    if (is_number(in.now(), a.pick)) {  // a mistake, told when the whole tensor is read
      const Place& last = in.take().place;
      a.word.place.length = last.at + last.length - a.word.place.at;
      return a;
    }
    in.expect("(", text("'(' and the dimensions that '", a.word.name, "' is made of"));
    while (!in.sees(")")) a.parts.push_back(in.name("a dimension or ')'"));
    if (a.parts.empty()) in.expected("the dimensions that the axis is made of");
    in.take();
  }
  return a;
}

// s=0 picks no element.
void refuse_named_picks(const RefText& ref) {
  for (const AxisText& axis : ref.axes)
    if (axis.pick >= 0 && !axis.word.name.empty())
      fail_at({axis.word.place}, "an element is picked by its number alone: write ", written(ref));
}

}  // namespace

std::string written(const RefText& ref) {
  std::string axes;
  for (const AxisText& axis : ref.axes) {
    std::string parts;
    for (const Word& part : axis.parts) parts += (parts.empty() ? "" : " ") + part.name;
    axes += axes.empty() ? "" : ", ";
    axes += axis.pick >= 0 ? text(axis.pick) : axis.word.name;
    if (!parts.empty()) axes += "=(" + parts + ")";
  }
  return text(ref.word.name, "[", axes, "]");
}

RefText read_ref(Tokens& in, std::string_view what) {
  RefText r;
  r.word = in.name(what);
  in.expect("[", text("'[': a tensor is always written with its dimensions, as in ", r.word.name,
                      "[n, d]"));
  if (!in.sees("]")) do
      r.axes.push_back(read_axis(in));
    while (in.takes(","));
  const Token close = in.expect("]", "',' or ']' after a dimension");
  r.whole = r.word.place;
  r.whole.length = close.place.at + close.place.length - r.whole.at;
  refuse_named_picks(r);
  return r;
}

namespace {

[[noreturn]] void too_deep(const Place& place) {
  fail_at({place}, "an expression is nested more than ", deepest,
          " deep; name its parts in statements of their own");
}

// Counts how deep the calls of a reader are nested, so that no text overflows the stack.
class Nesting {
 public:
  Nesting(int& depth, const Place& place) : depth_(depth) {
    if (++depth_ > deepest) too_deep(place);
  }
  ~Nesting() { --depth_; }

 private:
  int& depth_;
};

template <class... Args>
ExprText operation(Operator op, const Place& place, Args... args) {
  ExprText e;
  e.kind = ExprKind::operation;
  e.op = op, e.place = place;
  e.depth = std::max({args.depth...}) + 1;
  if (e.depth > deepest) too_deep(place);
  (e.args.push_back(std::move(args)), ...);
  return e;
}

ExprText read_number(Tokens& in) {
  const Token& token = in.take();
  ExprText e;
  e.place = token.place;
  e.whole = token.text.find_first_of(".eE") == std::string_view::npos;
  if (!is_number(token, e.number))
    fail_at({token.place}, "'", token.text, "' is not a number that can be represented");
  return e;
}

// Reads a list of dimensions, (o w).
ExprText read_group(Tokens& in) {
  ExprText e;
  e.kind = ExprKind::group;
  e.place = in.take().place;
  while (!in.sees(")")) e.group.push_back(in.name("a dimension or ')'"));
  in.take();
  return e;
}

class ExpressionReader {
 public:
  explicit ExpressionReader(Tokens& in) : in_(in) {}

  // The operators that bind loosest come first.
  ExprText expr() {
    const Nesting nesting = nested();
    return chain(Operator::either, Operator::either, &ExpressionReader::both);
  }

 private:
  Nesting nested() { return Nesting(depth_, in_.now().place); }

  // True, with the operator, if one of `first` … `last` comes now.
  bool sees(Operator first, Operator last, Operator& op) const {
    for (op = first; op <= last; op = static_cast<Operator>(static_cast<int>(op) + 1))
      if (in_.sees(symbol(op))) return true;
    return false;
  }

  // Operands with operators `first` … `last` between them, joined from the left.
  ExprText chain(Operator first, Operator last, ExprText (ExpressionReader::*operand)()) {
    ExprText e = (this->*operand)();
    Operator op{};
    while (sees(first, last, op)) {
      const Place place = in_.take().place;
      e = operation(op, place, std::move(e), (this->*operand)());
    }
    return e;
  }

  ExprText both() { return chain(Operator::both, Operator::both, &ExpressionReader::negation); }

  ExprText negation() {
    if (!in_.sees("not")) return comparison();
    const Nesting nesting = nested();
    const Place place = in_.take().place;
    return operation(Operator::negation, place, negation());
  }

  ExprText comparison() {
    ExprText e = sum();
    Operator op{};
    if (!sees(Operator::less, Operator::unequal, op)) return e;
    const Place place = in_.take().place;
    e = operation(op, place, std::move(e), sum());
    if (sees(Operator::less, Operator::unequal, op))
      fail_at({in_.now().place}, "comparisons do not chain; write 'a < b and b < c'");
    return e;
  }

  ExprText sum() { return chain(Operator::add, Operator::subtract, &ExpressionReader::product); }
  ExprText product() {
    return chain(Operator::multiply, Operator::modulo, &ExpressionReader::minus);
  }

  ExprText minus() {
    if (!in_.sees("-")) return power();
    const Nesting nesting = nested();
    const Place place = in_.take().place;
    return operation(Operator::minus, place, minus());
  }

  ExprText power() {
    ExprText e = primary();
    if (!in_.sees("^")) return e;
    const Nesting nesting = nested();
    const Place place = in_.take().place;
    return operation(Operator::power, place, std::move(e), minus());
  }

  ExprText primary() {
    ExprText e;
    e.place = in_.now().place;
    if (in_.takes("(")) {
      e = expr();
      in_.expect(")", "an operator or ')'");
      return e;
    }
    if (in_.now().kind == TokenKind::number) return read_number(in_);
    if (in_.takes("causal")) return e.kind = ExprKind::causal, e;
    if (in_.takes("layer")) return e.kind = ExprKind::layer, e;
    if (!Tokens::is_name(in_.now())) in_.expected("a tensor, a number, a dimension or a function");
    if (in_.after(1).text == "[") {
      e.kind = ExprKind::ref;
      e.ref = read_ref(in_, "a tensor");
      e.place = e.ref.whole;
      return e;
    }
    e.word = in_.name("a name");
    if (!in_.sees("(")) return e.kind = ExprKind::dim, e;
    e.kind = ExprKind::call;
    arguments(e);
    return e;
  }

  void arguments(ExprText& call) {
    in_.expect("(", "'('");
    if (!in_.sees(")")) {
      do {
        if (Tokens::is_name(in_.now()) && in_.after(1).text == "=") {
          Word key = in_.name("a key");
          in_.take();
          call.keys.push_back(key_value());
          call.keys.back().key = std::move(key);
          call.depth = std::max(call.depth, call.keys.back().depth + 1);
        } else {
          if (!call.keys.empty())
            fail_at({in_.now().place}, "an argument without a name stands before those with one");
          call.args.push_back(expr());
          call.depth = std::max(call.depth, call.args.back().depth + 1);
        }
      } while (in_.takes(","));
    }
    in_.expect(")", "an operator, ',' or ')'");
    if (call.depth > deepest) too_deep(call.place);
  }

  ExprText key_value() {
    const bool is_group =
        in_.sees("(") && Tokens::is_name(in_.after(1)) && in_.is_name(in_.after(2));
    return is_group ? read_group(in_) : expr();
  }

  Tokens& in_;
  int depth_ = 0;
};

}  // namespace

ExprText read_expression(Tokens& in) { return ExpressionReader(in).expr(); }

}  // namespace tete
