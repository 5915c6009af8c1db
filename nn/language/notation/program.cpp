// Programs: defs, their arguments, sizes and statements.
#include "nn/language/notation/expression.hpp"

namespace tete {

const char* symbol(Operator op) {
  static constexpr const char* symbols[] = {"or", "and", "not", "<", "<=", ">", ">=", "==", "!=",
                                            "+",  "-",   "*",   "/", "//", "%", "-",  "^"};
  return symbols[static_cast<int>(op)];
}

namespace {

constexpr size_t most_defs = 1000, most_args = 1000, most_uses = 1000;

class Reader {
 public:
  explicit Reader(const Source& source) : in_(source) {}

  std::vector<UseText> uses() {
    std::vector<UseText> uses;
    in_.skip_lines();
    while (in_.takes("use")) add_use(uses);
    return uses;
  }

  // The same to the end of the text, without the word.
  std::vector<UseText> bare_uses() {
    std::vector<UseText> uses;
    for (in_.skip_lines(); in_.now().kind != TokenKind::text_end;) add_use(uses);
    return uses;
  }

  std::vector<Def> defs() {
    std::vector<Def> defs;
    in_.skip_lines();
    while (in_.now().kind != TokenKind::text_end) {
      if (defs.size() == most_defs)
        fail_at({in_.now().place}, "a text has at most ", most_defs, " defs, here is one more");
      defs.push_back(def());
      in_.skip_lines();
    }
    if (defs.empty()) fail_at({in_.now().place}, "expected 'def': the text holds no program");
    return defs;
  }

 private:
  void add_use(std::vector<UseText>& uses) {
    if (uses.size() == most_uses)
      fail_at({in_.now().place}, "a text fills at most ", most_uses, " slots, here is one more");
    uses.push_back(use());
    refuse_twice(uses);
  }

  UseText use() {
    UseText u;
    u.slot = in_.name("the name of a slot, as in 'use Attention = multi_head'");
    while (in_.takes(".")) {
      u.path.push_back(std::move(u.slot));
      u.slot = in_.name(text("a statement or a slot after '", u.path.back().name, ".'"));
    }
    if (in_.takes("[")) u.numbers = repetitions();
    const bool fills = in_.takes("=");
    if (fills)
      u.filler = in_.name(text("what fills '", u.slot.name, "': a text or a def, by its name"));
    else if (!in_.sees("with")) in_.expected(text("'=' or 'with' after '", written(u), "'"));
    if (in_.takes("with")) u.with = names("the name of a text that amends");
    if (fills && in_.takes("start")) {
      u.start = read_expression(in_);
      if (u.start.kind != ExprKind::call)
        fail_at({u.start.place}, "expected how parameters start, as in normal(0.02)");
    }
    end_of_line("'with', 'start' or the end of the line");
    return u;
  }

  std::vector<NumberText> repetitions() {
    std::vector<NumberText> numbers;
    do {
      const Token& token = in_.take();
      NumberText number{0, token.place};
      if (token.kind != TokenKind::number || !is_number(token, number.value))
        fail_at({token.place}, "expected the number of a repetition, a whole one from 0");
      for (const NumberText& before : numbers)
        if (before.value == number.value)
          fail_at({number.place, before.place}, number.value, " stands twice");
      numbers.push_back(number);
    } while (in_.takes(","));
    in_.expect("]", "',' or ']' after the number of a repetition");
    return numbers;
  }

  // Both are about one place.
  static bool meet(const UseText& a, const UseText& b) {
    const auto same = [](const Word& x, const Word& y) { return x.name == y.name; };
    const bool share_number =
        std::any_of(a.numbers.begin(), a.numbers.end(), [&](const NumberText& x) {
          return std::any_of(b.numbers.begin(), b.numbers.end(),
                             [&](const NumberText& y) { return x.value == y.value; });
        });
    return a.slot.name == b.slot.name &&
           (share_number || (a.numbers.empty() && b.numbers.empty())) &&
           std::equal(a.path.begin(), a.path.end(), b.path.begin(), b.path.end(), same);
  }

  static void refuse_twice(const std::vector<UseText>& uses) {
    const UseText& last = uses.back();
    for (size_t i = 0; i + 1 < uses.size() && !last.filler.name.empty(); ++i)
      if (!uses[i].filler.name.empty() && meet(uses[i], last))
        fail_at({last.slot.place, uses[i].slot.place}, "the slot '", written(last),
                "' is filled twice");
  }

  std::vector<Word> names(std::string_view what) {
    std::vector<Word> names;
    do names.push_back(in_.name(what));
    while (in_.takes(","));
    return names;
  }

  Def def() {
    Def d;
    in_.expect("def", "'def'");
    d.word = in_.name("the def's name");
    in_.expect("(", text("'(' after '", d.word.name, "'"));
    if (!in_.sees(")")) do {
        if (d.args.size() == most_args)
          fail_at({in_.now().place}, "a def has at most ", most_args,
                  " arguments, here is one more");
        d.args.push_back(arg());
      } while (in_.takes(",") && !in_.sees(")"));
    in_.expect(")", "',' or ')' after an argument");
    in_.expect(":", "':' after the arguments");
    in_.skip_lines();
    if (in_.takes("where")) {
      do d.where.push_back(default_size());
      while (in_.takes(","));
      end_of_line("',' or the end of the line after a size");
    }
    while (!in_.sees("return")) d.statements.push_back(statement());
    in_.take();
    d.result = read_ref(in_, "the tensor to return, with its dimensions");
    end_of_line("the end of the line after the result");
    return d;
  }

  void end_of_line(std::string_view what) {
    if (in_.now().kind != TokenKind::line_end && in_.now().kind != TokenKind::text_end)
      in_.expected(what);
    in_.skip_lines();
  }

  ArgText arg() {
    ArgText a;
    a.ref = read_ref(in_, "an argument: a tensor with its dimensions");
    if (in_.takes("<")) {
      a.kind = ArgKind::integer;
      a.below = in_.name("the dimension whose positions this input holds");
    } else if (in_.takes("=")) {
      if (Tokens::is_name(in_.now()) && in_.after(1).text == "[") {
        a.kind = ArgKind::renamed;
        a.same_as = read_ref(in_, "an input");
      } else {
        a.kind = ArgKind::parameter;
        initializer(a);
      }
    }
    return a;
  }

  void initializer(ArgText& a) {
    if (in_.sees("fixed") && in_.after(1).kind == TokenKind::word) a.fixed = (in_.take(), true);
    if (!Tokens::is_name(in_.now()) || in_.after(1).text != "(")
      in_.expected("how the parameter starts, as in normal(0.1), or an input");
    a.init = read_expression(in_);
    if (a.init.kind != ExprKind::call)
      fail_at({a.init.place},
              "expected one initialiser, as in normal(0.1), but this is an expression");
    if (in_.sees("per")) {
      in_.take();
      in_.expect("stack", "'stack' after 'per'");
      a.per_stack = true;
    }
  }

  WhereText default_size() {
    WhereText w;
    w.word = in_.name("the name of a size");
    in_.expect("=", text("'=' after '", w.word.name, "'"));
    w.value = read_expression(in_);
    return w;
  }

  StatementText statement() {
    if (in_.now().kind == TokenKind::text_end || in_.sees("def"))
      in_.expected("a statement or 'return'");
    if (in_.sees("where"))
      fail_at({in_.now().place}, "'where' stands once, before the first statement");
    StatementText s;
    s.is_loss = in_.sees("loss") && Tokens::is_name(in_.after(1));
    if (s.is_loss) in_.take();
    s.left = read_ref(in_, "a statement, as in Y[n, d] = …, or 'return'");
    in_.expect("=", text("'=' after '", s.left.word.name, "[…]'"));
    s.right = read_expression(in_);
    if (s.right.kind == ExprKind::call) way_of_calling(s);
    end_of_line("an operator or the end of the line");
    return s;
  }

  void way_of_calling(StatementText& s) {
    if (in_.takes("with")) s.with = names("the name of a text that amends, or of a slot for one");
    if (!in_.takes("repeated")) return;
    s.repeated = in_.name("the dimension that counts the repetitions, as in 'repeated l'");
    s.tied = in_.takes("tied");
  }

  Tokens in_;
};

}  // namespace

std::string written(const UseText& use) {
  std::string all, numbers;
  for (const Word& word : use.path) all += word.name + ".";
  for (const NumberText& number : use.numbers)
    numbers += text(numbers.empty() ? "" : ", ", number.value);
  return text(all, use.slot.name, numbers.empty() ? "" : "[" + numbers + "]");
}

std::string filling_of(const UseText& use) {
  const Word& first = use.filler.name.empty() ? use.with.at(0) : use.filler;
  const std::string& all = first.place.source->text;
  const size_t end = std::min(all.find_first_of("#\n", first.place.at), all.size());
  const size_t last = all.find_last_not_of(' ', end - 1);
  return (use.filler.name.empty() ? "with " : "") +
         all.substr(first.place.at, last + 1 - first.place.at);
}

Program Program::parse_uses(std::string_view text, std::string name) {
  auto source = std::make_shared<const Source>(Source{std::move(name), std::string(text)});
  return {source, Reader(*source).bare_uses(), {}};
}

Program Program::parse(std::string_view text, std::string name) {
  auto source = std::make_shared<const Source>(Source{std::move(name), std::string(text)});
  Reader reader(*source);
  std::vector<UseText> uses = reader.uses();
  Program program{source, std::move(uses), reader.defs()};
  for (size_t i = 0; i < program.defs.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (program.defs[i].word.name == program.defs[k].word.name)
        fail_at({program.defs[i].word.place, program.defs[k].word.place}, "'",
                program.defs[i].word.name, "' is defined twice");
  return program;
}

const Def* Program::find(std::string_view name) const {
  for (const Def& def : defs)
    if (def.word.name == name) return &def;
  return nullptr;
}

}  // namespace tete
