#include "nn/language/notation/expression.hpp"

#include <charconv>

namespace tete {

namespace {

constexpr int deepest = 200;  // nesting of an expression

AxisText read_axis(Tokens& in) {
  AxisText a;
  if (in.now().kind == TokenKind::number) {
    const Token& token = in.take();
    a.word.place = token.place;
    const auto [end, error] =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), a.pick);
    if (error != std::errc() || end != token.text.data() + token.text.size())
      fail_at({token.place},
              text("'", token.text, "' is not the number of an element, a whole one from 0"));
    return a;
  }
  a.word = in.name("a dimension");
  if (in.takes("<=")) {
    a.bound = in.name("the dimension that is the largest length");
  } else if (in.takes("=")) {
    in.expect("(", text("'(' and the dimensions that '", a.word.name, "' is made of"));
    while (!in.sees(")")) a.parts.push_back(in.name("a dimension or ')'"));
    if (a.parts.empty()) in.expected("the dimensions that the axis is made of");
    in.take();
  }
  return a;
}

}  // namespace

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
  return r;
}

namespace {

class ExpressionReader {
 public:
  explicit ExpressionReader(Tokens& in) : in_(in) {}
  ExprText expr() { return either(); }

 private:
  // Counts how deep the calls of the reader are nested, so that no text overflows the stack.
  struct Nesting {
    explicit Nesting(ExpressionReader& r) : reader(r) {
      if (++reader.depth_ > deepest) reader.too_deep(reader.in_.now().place);
    }
    ~Nesting() { --reader.depth_; }
    ExpressionReader& reader;
  };
  [[noreturn]] void too_deep(const Place& place) const {
    fail_at({place}, text("an expression is nested more than ", deepest,
                          " deep; name its parts in statements of their own"));
  }

  ExprText operation(Operator op, const Place& place, std::vector<ExprText> args) const {
    ExprText e;
    e.kind = ExprText::Kind::operation;
    e.op = op, e.place = place;
    for (const ExprText& arg : args) e.depth = std::max(e.depth, arg.depth + 1);
    if (e.depth > deepest) too_deep(place);
    e.args = std::move(args);
    return e;
  }
  ExprText joined(Operator op, const Place& place, ExprText a, ExprText b) const {
    std::vector<ExprText> args;
    args.push_back(std::move(a)), args.push_back(std::move(b));
    return operation(op, place, std::move(args));
  }

  // Loosest first.
  ExprText either() {
    const Nesting nesting(*this);
    ExprText e = both();
    while (in_.sees("or")) {
      const Place place = in_.take().place;
      e = joined(Operator::either, place, std::move(e), both());
    }
    return e;
  }

  ExprText both() {
    ExprText e = negation();
    while (in_.sees("and")) {
      const Place place = in_.take().place;
      e = joined(Operator::both, place, std::move(e), negation());
    }
    return e;
  }

  ExprText negation() {
    if (!in_.sees("not")) return comparison();
    const Nesting nesting(*this);
    const Place place = in_.take().place;
    std::vector<ExprText> args;
    args.push_back(negation());
    return operation(Operator::negation, place, std::move(args));
  }

  static bool is_comparison(const Token& token, Operator& op) {
    for (Operator o : {Operator::less, Operator::less_equal, Operator::greater,
                       Operator::greater_equal, Operator::equal, Operator::unequal})
      if (token.kind == TokenKind::sign && token.text == symbol(o)) return op = o, true;
    return false;
  }

  ExprText comparison() {
    ExprText e = sum();
    Operator op{};
    if (!is_comparison(in_.now(), op)) return e;
    const Place place = in_.take().place;
    e = joined(op, place, std::move(e), sum());
    if (is_comparison(in_.now(), op))
      fail_at({in_.now().place}, "comparisons do not chain; write 'a < b and b < c'");
    return e;
  }

  ExprText sum() {
    ExprText e = product();
    while (in_.sees("+") || in_.sees("-")) {
      const Operator op = in_.sees("+") ? Operator::add : Operator::subtract;
      const Place place = in_.take().place;
      e = joined(op, place, std::move(e), product());
    }
    return e;
  }

  ExprText product() {
    ExprText e = minus();
    while (true) {
      Operator op{};
      if (in_.sees("*")) op = Operator::multiply;
      else if (in_.sees("/")) op = Operator::divide;
      else if (in_.sees("//")) op = Operator::floor_divide;
      else if (in_.sees("%")) op = Operator::modulo;
      else return e;
      const Place place = in_.take().place;
      e = joined(op, place, std::move(e), minus());
    }
  }

  ExprText minus() {
    if (!in_.sees("-")) return power();
    const Nesting nesting(*this);
    const Place place = in_.take().place;
    std::vector<ExprText> args;
    args.push_back(minus());
    return operation(Operator::minus, place, std::move(args));
  }

  ExprText power() {
    ExprText e = primary();
    if (!in_.sees("^")) return e;
    const Nesting nesting(*this);
    const Place place = in_.take().place;
    return joined(Operator::power, place, std::move(e), minus());
  }

  ExprText primary() {
    ExprText e;
    e.place = in_.now().place;
    if (in_.takes("(")) {
      e = expr();
      in_.expect(")", "an operator or ')'");
      return e;
    }
    if (in_.now().kind == TokenKind::number) return number();
    if (in_.takes("causal")) return e.kind = ExprText::Kind::causal, e;
    if (!Tokens::is_name(in_.now())) in_.expected("a tensor, a number, a dimension or a function");
    if (in_.after(1).text == "[") {
      e.kind = ExprText::Kind::ref;
      e.ref = read_ref(in_, "a tensor");
      e.place = e.ref.whole;
      return e;
    }
    e.word = in_.name("a name");
    if (!in_.sees("(")) return e.kind = ExprText::Kind::dim, e;
    e.kind = ExprText::Kind::call;
    arguments(e);
    return e;
  }

  ExprText number() {
    const Token& token = in_.take();
    ExprText e;
    e.place = token.place;
    e.whole = token.text.find_first_of(".eE") == std::string_view::npos;
    const auto [end, error] =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), e.number);
    if (error != std::errc() || end != token.text.data() + token.text.size())
      fail_at({token.place}, text("'", token.text, "' is not a number that can be represented"));
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

  // A list of dimensions, (o w), or an expression.
  ExprText key_value() {
    if (!(in_.sees("(") && Tokens::is_name(in_.after(1)) && in_.is_name(in_.after(2))))
      return expr();
    ExprText e;
    e.kind = ExprText::Kind::group;
    e.place = in_.take().place;
    while (!in_.sees(")")) e.group.push_back(in_.name("a dimension or ')'"));
    in_.take();
    return e;
  }

  Tokens& in_;
  int depth_ = 0;
};

}  // namespace

ExprText read_expression(Tokens& in) { return ExpressionReader(in).expr(); }

}  // namespace tete
