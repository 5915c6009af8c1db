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

void end_of_line(Tokens& in, std::string_view what) {
  if (in.now().kind != TokenKind::line_end && in.now().kind != TokenKind::text_end)
    in.expected(what);
  in.skip_lines();
}

std::vector<Word> read_names(Tokens& in, std::string_view what) {
  std::vector<Word> names;
  do names.push_back(in.name(what));
  while (in.takes(","));
  return names;
}

std::vector<NumberText> read_repetitions(Tokens& in) {
  std::vector<NumberText> numbers;
  do {
    const Token& token = in.take();
    NumberText number{0, token.place};
    if (token.kind != TokenKind::number || !is_number(token, number.value))
      fail_at({token.place}, "expected the number of a repetition, a whole one from 0");
    for (const NumberText& before : numbers)
      if (before.value == number.value)
        fail_at({number.place, before.place}, number.value, " stands twice");
    numbers.push_back(number);
  } while (in.takes(","));
  in.expect("]", "',' or ']' after the number of a repetition");
  return numbers;
}

UseText read_use(Tokens& in) {
  UseText u;
  u.slot = in.name("the name of a slot, as in 'use Attention = multi_head'");
  while (in.takes(".")) {
    u.path.push_back(std::move(u.slot));
    u.slot = in.name(text("a statement or a slot after '", u.path.back().name, ".'"));
  }
  if (in.takes("[")) u.numbers = read_repetitions(in);
  const bool fills = in.takes("=");
  if (fills)
    u.filler = in.name(text("what fills '", u.slot.name, "': a text or a def, by its name"));
  else if (!in.sees("with")) in.expected(text("'=' or 'with' after '", written(u), "'"));
  if (in.takes("with")) u.with = read_names(in, "the name of a text that amends");
  if (fills && in.takes("start")) {
    u.start = read_expression(in);
    if (u.start.kind != ExprKind::call)
      fail_at({u.start.place}, "expected how parameters start, as in normal(0.02)");
  }
  end_of_line(in, "'with', 'start' or the end of the line");
  return u;
}

// Both are about one place.
bool meet(const UseText& a, const UseText& b) {
  const auto same = [](const Word& x, const Word& y) { return x.name == y.name; };
  const bool share_number =
      std::any_of(a.numbers.begin(), a.numbers.end(), [&](const NumberText& x) {
        return std::any_of(b.numbers.begin(), b.numbers.end(),
                           [&](const NumberText& y) { return x.value == y.value; });
      });
  return a.slot.name == b.slot.name && (share_number || (a.numbers.empty() && b.numbers.empty())) &&
         std::equal(a.path.begin(), a.path.end(), b.path.begin(), b.path.end(), same);
}

void refuse_twice(const std::vector<UseText>& uses) {
  const UseText& last = uses.back();
  for (size_t i = 0; i + 1 < uses.size() && !last.filler.name.empty(); ++i)
    if (!uses[i].filler.name.empty() && meet(uses[i], last))
      fail_at({last.slot.place, uses[i].slot.place}, "the slot '", written(last),
              "' is filled twice");
}

void add_use(Tokens& in, std::vector<UseText>& uses) {
  if (uses.size() == most_uses)
    fail_at({in.now().place}, "a text fills at most ", most_uses, " slots, here is one more");
  uses.push_back(read_use(in));
  refuse_twice(uses);
}

void read_initializer(Tokens& in, ArgText& a) {
  if (in.sees("fixed") && in.after(1).kind == TokenKind::word) a.fixed = (in.take(), true);
  if (!Tokens::is_name(in.now()) || in.after(1).text != "(")
    in.expected("how the parameter starts, as in normal(0.1), or an input");
  a.init = read_expression(in);
  if (a.init.kind != ExprKind::call)
    fail_at({a.init.place},
            "expected one initialiser, as in normal(0.1), but this is an expression");
  if (in.sees("per")) {
    in.take();
    in.expect("stack", "'stack' after 'per'");
    a.per_stack = true;
  }
}

ArgText read_arg(Tokens& in) {
  ArgText a;
  a.ref = read_ref(in, "an argument: a tensor with its dimensions");
  if (in.takes("<")) {
    a.kind = ArgKind::integer;
    a.below = in.name("the dimension whose positions this input holds");
  } else if (in.takes("=")) {
    if (Tokens::is_name(in.now()) && in.after(1).text == "[") {
      a.kind = ArgKind::renamed;
      a.same_as = read_ref(in, "an input");
    } else {
      a.kind = ArgKind::parameter;
      read_initializer(in, a);
    }
  }
  return a;
}

WhereText read_size(Tokens& in) {
  WhereText w;
  w.word = in.name("the name of a size");
  in.expect("=", text("'=' after '", w.word.name, "'"));
  w.value = read_expression(in);
  return w;
}

void read_way_of_calling(Tokens& in, StatementText& s) {
  if (in.takes("with"))
    s.with = read_names(in, "the name of a text that amends, or of a slot for one");
  if (!in.takes("repeated")) return;
  s.repeated = in.name("the dimension that counts the repetitions, as in 'repeated l'");
  s.tied = in.takes("tied");
}

StatementText read_statement(Tokens& in) {
  if (in.now().kind == TokenKind::text_end || in.sees("def"))
    in.expected("a statement or 'return'");
  if (in.sees("where"))
    fail_at({in.now().place}, "'where' stands once, before the first statement");
  StatementText s;
  s.is_loss = in.sees("loss") && Tokens::is_name(in.after(1));
  if (s.is_loss) in.take();
  s.left = read_ref(in, "a statement, as in Y[n, d] = …, or 'return'");
  in.expect("=", text("'=' after '", s.left.word.name, "[…]'"));
  s.right = read_expression(in);
  if (s.right.kind == ExprKind::call) read_way_of_calling(in, s);
  end_of_line(in, "an operator or the end of the line");
  return s;
}

Def read_def(Tokens& in) {
  Def d;
  in.expect("def", "'def'");
  d.word = in.name("the def's name");
  in.expect("(", text("'(' after '", d.word.name, "'"));
  if (!in.sees(")")) do {
      if (d.args.size() == most_args)
        fail_at({in.now().place}, "a def has at most ", most_args, " arguments, here is one more");
      d.args.push_back(read_arg(in));
    } while (in.takes(",") && !in.sees(")"));
  in.expect(")", "',' or ')' after an argument");
  in.expect(":", "':' after the arguments");
  in.skip_lines();
  if (in.takes("where")) {
    do d.where.push_back(read_size(in));
    while (in.takes(","));
    end_of_line(in, "',' or the end of the line after a size");
  }
  while (!in.sees("return")) d.statements.push_back(read_statement(in));
  in.take();
  d.result = read_ref(in, "the tensor to return, with its dimensions");
  end_of_line(in, "the end of the line after the result");
  return d;
}

std::vector<Def> read_defs(Tokens& in) {
  std::vector<Def> defs;
  in.skip_lines();
  while (in.now().kind != TokenKind::text_end) {
    if (defs.size() == most_defs)
      fail_at({in.now().place}, "a text has at most ", most_defs, " defs, here is one more");
    defs.push_back(read_def(in));
    in.skip_lines();
  }
  if (defs.empty()) fail_at({in.now().place}, "expected 'def': the text holds no program");
  return defs;
}

}  // namespace

std::string written(const UseText& use) {
  std::string path;
  for (const Word& word : use.path) path += word.name + ".";
  const std::string numbers = list_of(use.numbers, [](const NumberText& n) { return n.value; });
  return text(path, use.slot.name, numbers.empty() ? "" : "[" + numbers + "]");
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
  Program program{std::make_shared<const Source>(Source{std::move(name), std::string(text)})};
  Tokens in(*program.source);
  for (in.skip_lines(); in.now().kind != TokenKind::text_end;) add_use(in, program.uses);
  return program;
}

Program Program::parse(std::string_view text, std::string name) {
  Program program{std::make_shared<const Source>(Source{std::move(name), std::string(text)})};
  Tokens in(*program.source);
  in.skip_lines();
  while (in.takes("use")) add_use(in, program.uses);
  program.defs = read_defs(in);
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
