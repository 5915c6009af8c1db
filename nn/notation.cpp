// The reader of the notation: characters to tokens, tokens to a tree, by recursive descent.
#include "nn/notation.hpp"

#include <algorithm>
#include <charconv>

namespace tete {

// ---- Places in a text -------------------------------------------------------------------------

namespace {

constexpr size_t longest_text = size_t{1} << 20;
constexpr int deepest = 200;         // nesting of an expression
constexpr size_t widest_line = 160;  // shown in an error

// The length of the UTF-8 character at `at`, or 0 where there is none.
size_t character_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  const size_t length = lead < 0x80       ? 1
                        : lead >> 5 == 6  ? 2
                        : lead >> 4 == 14 ? 3
                        : lead >> 3 == 30 ? 4
                                          : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if (byte(at + i) >> 6 != 2) return 0;
  return length;
}

struct Line {
  size_t begin, end;  // without the line's end
  size_t number;      // from 1
};

Line line_at(const Place& place) {
  const std::string& text = place.source->text;
  const size_t at = std::min<size_t>(place.at, text.size());
  const size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  const size_t end = std::min(text.find('\n', at), text.size());
  const auto newlines = std::count(text.begin(), text.begin() + static_cast<long>(begin), '\n');
  return {begin, end, static_cast<size_t>(newlines) + 1};
}

// The character at `at` is that many bytes long; a broken one is one.
size_t step_at(std::string_view text, size_t at) {
  return std::max<size_t>(1, character_length(text, at));
}

// In characters, from 1.
size_t column_of(const Place& place, const Line& line) {
  size_t column = 1;
  for (size_t i = line.begin; i < place.at; i += step_at(place.source->text, i)) ++column;
  return column;
}

// The line with carets under those places that are in it; a long line is shown in part.
std::string shown(const Line& line, const std::vector<Place>& places, const Source* source) {
  const std::string& whole = source->text;
  const auto is_marked = [&](size_t at) {
    return std::any_of(places.begin(), places.end(), [&](const Place& place) {
      return place.source == source && at >= place.at && at < place.at + std::max(1u, place.length);
    });
  };
  size_t begin = line.begin, end = line.end;
  if (end - begin > widest_line) {
    size_t first = begin;
    while (first < end && !is_marked(first)) ++first;
    begin = first > line.begin + 60 ? first - 60 : line.begin;
    end = std::min(line.end, begin + widest_line);
  }
  std::string text, carets;
  for (size_t i = begin; i < end; i += step_at(whole, i)) {
    const bool is_tab = whole[i] == '\t', is_control = static_cast<unsigned char>(whole[i]) < ' ';
    const bool is_broken = character_length(whole, i) == 0;
    if (is_broken) text += '?';
    else if (is_control && !is_tab) text += ' ';
    else text += whole.substr(i, step_at(whole, i));
    carets += is_marked(i) ? '^' : is_tab ? '\t' : ' ';
  }
  if (is_marked(end)) carets += '^';
  carets.erase(carets.find_last_not_of(" \t") + 1);
  text.erase(text.find_last_not_of(' ') + 1);
  return "\n    " + text + "\n    " + carets;
}

}  // namespace

std::string line_of(const Place& place) {
  return text(place.source->name, ":", line_at(place).number);
}

std::string point_out(const std::string& sentence, const std::vector<Place>& places) {
  const Line line = line_at(places[0]);
  std::string message = text(places[0].source->name, ":", line.number, ":",
                             column_of(places[0], line), ": ", sentence);
  std::vector<std::pair<const Source*, size_t>> done;
  for (const Place& place : places) {
    const Line here = line_at(place);
    const std::pair<const Source*, size_t> key{place.source, here.begin};
    if (std::find(done.begin(), done.end(), key) != done.end()) continue;
    if (!done.empty()) message += "\n  " + line_of(place) + ":";
    message += shown(here, places, place.source);
    done.push_back(key);
  }
  return message;
}

void fail_at(const std::vector<Place>& places, const std::string& sentence) {
  throw Error(Kind::input, point_out(sentence, places));
}

const char* symbol(Operator op) {
  static constexpr const char* symbols[] = {"or", "and", "not", "<", "<=", ">", ">=", "==", "!=",
                                            "+",  "-",   "*",   "/", "//", "%", "-",  "^"};
  return symbols[static_cast<int>(op)];
}

// ---- Tokens -----------------------------------------------------------------------------------

namespace {

enum class TokenKind : uint8_t { word, number, sign, line_end, text_end };

struct Token {
  TokenKind kind;
  std::string_view text;
  Place place;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

void check_is_text(const Source& source) {
  if (source.text.size() > longest_text)
    bad_input(source.name, ": a program has at most ", longest_text, " bytes, this has ",
              source.text.size());
  for (size_t at = 0; at < source.text.size();) {
    const size_t length = source.text[at] == 0 ? 0 : character_length(source.text, at);
    if (length == 0)
      fail_at(
          {{&source, static_cast<uint32_t>(at), 1}},
          text("this is not a text: byte ", at + 1, " of ", source.text.size(), " is not UTF-8"));
    at += length;
  }
}

class Tokenizer {
 public:
  explicit Tokenizer(const Source& source) : source_(source), text_(source.text) {}

  std::vector<Token> all() {
    while (at_ < text_.size()) next();
    if (!open_.empty())
      fail_at({open_.back()}, text("this '", text_[open_.back().at], "' is never closed"));
    if (!tokens_.empty()) end_line(text_.size());
    tokens_.push_back({TokenKind::text_end, "", {&source_, size32(text_.size()), 1}});
    return std::move(tokens_);
  }

 private:
  static uint32_t size32(size_t n) { return static_cast<uint32_t>(n); }
  Place place(size_t begin, size_t end) const {
    return {&source_, size32(begin), size32(end - begin)};
  }
  void push(TokenKind kind, size_t end) {
    tokens_.push_back({kind, text_.substr(at_, end - at_), place(at_, end)});
    at_ = end;
  }
  void end_line(size_t at) {
    const bool goes_on = !open_.empty() || tokens_.empty() || tokens_.back().text == "," ||
                         tokens_.back().kind == TokenKind::line_end;
    if (!goes_on) tokens_.push_back({TokenKind::line_end, "", place(at, at + 1)});
  }

  void next() {
    const char c = text_[at_];
    if (c == '\n') return end_line(at_), void(++at_);
    if (c == ' ' || c == '\t' || c == '\r') return void(++at_);
    if (c == '#') return void(at_ = std::min(text_.find('\n', at_), text_.size()));
    if (is_letter(c)) return word();
    if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])))
      return number();
    sign();
  }

  void word() {
    size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    push(TokenKind::word, end);
  }

  void number() {
    size_t end = at_;
    const auto digits = [&] {
      while (end < text_.size() && is_digit(text_[end])) ++end;
    };
    digits();
    if (end < text_.size() && text_[end] == '.') ++end, digits();
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      const size_t exponent = end++;
      if (end < text_.size() && (text_[end] == '+' || text_[end] == '-')) ++end;
      if (end < text_.size() && is_digit(text_[end])) digits();
      else end = exponent;
    }
    if (end < text_.size() && is_letter(text_[end]))
      fail_at({place(at_, end + 1)},
              "a number ends where a name begins; write an operator or a "
              "space between them");
    push(TokenKind::number, end);
  }

  void sign() {
    const std::string_view rest = text_.substr(at_);
    for (std::string_view two : {"<=", ">=", "==", "!=", "//"})
      if (rest.starts_with(two)) return push(TokenKind::sign, at_ + 2);
    const char c = text_[at_];
    if (std::string_view("()[],:=<>+-*/%^").find(c) == std::string_view::npos) {
      const size_t end = at_ + character_length(text_, at_);
      fail_at({place(at_, at_ + 1)},
              text("'", text_.substr(at_, end - at_), "' has no meaning here"));
    }
    if (c == '(' || c == '[') open_.push_back(place(at_, at_ + 1));
    if (c == ')' || c == ']') close(c);
    push(TokenKind::sign, at_ + 1);
  }

  void close(char c) {
    if (open_.empty())
      fail_at({place(at_, at_ + 1)}, text("nothing is open that '", c, "' closes"));
    const char opened = text_[open_.back().at];
    if ((opened == '(') != (c == ')'))
      fail_at({place(at_, at_ + 1), open_.back()},
              text("'", c, "' does not close the '", opened, "' that is open"));
    open_.pop_back();
  }

  const Source& source_;
  std::string_view text_;
  size_t at_ = 0;
  std::vector<Place> open_;  // brackets
  std::vector<Token> tokens_;
};

// ---- The tree ---------------------------------------------------------------------------------

constexpr std::string_view reserved[] = {"def", "where", "return", "and", "or", "not", "causal"};

class Reader {
 public:
  explicit Reader(const Source& source) : tokens_(Tokenizer(source).all()) {}

  std::vector<Def> program() {
    std::vector<Def> defs;
    skip_lines();
    while (now().kind != TokenKind::text_end) {
      defs.push_back(def());
      skip_lines();
    }
    if (defs.empty()) fail_at({now().place}, "expected 'def': the text holds no program");
    return defs;
  }

 private:
  // -- moving along
  const Token& now() const { return tokens_[at_]; }
  const Token& after(size_t n) const { return tokens_[std::min(at_ + n, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool sees(std::string_view text) const {
    return (now().kind == TokenKind::sign || now().kind == TokenKind::word) && now().text == text;
  }
  bool takes(std::string_view text) { return sees(text) && (take(), true); }
  void skip_lines() {
    while (now().kind == TokenKind::line_end) take();
  }
  [[noreturn]] void expected(std::string_view what) const {
    const std::string got = now().kind == TokenKind::line_end   ? "the line ends"
                            : now().kind == TokenKind::text_end ? "the text ends"
                                                                : text("'", now().text, "' stands");
    fail_at({now().place}, text("expected ", what, ", but here ", got));
  }
  Token expect(std::string_view sign, std::string_view what) {
    if (!sees(sign)) expected(what);
    return take();
  }
  static bool is_name(const Token& token) {
    return token.kind == TokenKind::word &&
           std::find(std::begin(reserved), std::end(reserved), token.text) == std::end(reserved);
  }
  Word name(std::string_view what) {
    if (now().kind == TokenKind::word && !is_name(now()))
      fail_at({now().place}, text("'", now().text, "' is a word of the notation; expected ", what));
    if (now().kind != TokenKind::word) expected(what);
    const Token& token = take();
    return {std::string(token.text), token.place};
  }
  static Place from_to(const Place& first, const Place& last) {
    return {first.source, first.at, last.at + last.length - first.at};
  }

  // -- definitions
  Def def() {
    Def d;
    expect("def", "'def'");
    d.word = name("the def's name");
    expect("(", text("'(' after '", d.word.name, "'"));
    if (!sees(")")) do
        d.args.push_back(arg());
      while (takes(",") && !sees(")"));
    expect(")", "',' or ')' after an argument");
    expect(":", "':' after the arguments");
    skip_lines();
    if (takes("where")) {
      do d.where.push_back(default_size());
      while (takes(","));
      end_of_line("',' or the end of the line after a size");
    }
    while (!sees("return")) d.statements.push_back(statement());
    take();
    d.result = ref("the tensor to return, with its dimensions");
    end_of_line("the end of the line after the result");
    return d;
  }

  void end_of_line(std::string_view what) {
    if (now().kind != TokenKind::line_end && now().kind != TokenKind::text_end) expected(what);
    skip_lines();
  }

  ArgText arg() {
    ArgText a;
    a.ref = ref("an argument: a tensor with its dimensions");
    if (takes("<")) {
      a.kind = ArgText::Kind::integer;
      a.below = name("the dimension whose positions this input holds");
    } else if (takes("=")) {
      if (is_name(now()) && after(1).text == "[") {
        a.kind = ArgText::Kind::renamed;
        a.same_as = ref("an input");
      } else {
        a.kind = ArgText::Kind::parameter;
        initializer(a);
      }
    }
    return a;
  }

  void initializer(ArgText& a) {
    if (sees("fixed") && after(1).kind == TokenKind::word) a.fixed = (take(), true);
    if (!is_name(now()) || after(1).text != "(")
      expected("how the parameter starts, as in normal(0.1), or an input");
    a.init = expr();
    if (a.init.kind != ExprText::Kind::call)
      fail_at({a.init.place},
              "expected one initialiser, as in normal(0.1), but this is an "
              "expression");
    if (sees("per")) {
      take();
      expect("stack", "'stack' after 'per'");
      a.per_stack = true;
    }
  }

  WhereText default_size() {
    WhereText w;
    w.word = name("the name of a size");
    expect("=", text("'=' after '", w.word.name, "'"));
    w.value = expr();
    return w;
  }

  StatementText statement() {
    if (now().kind == TokenKind::text_end || sees("def")) expected("a statement or 'return'");
    if (sees("where")) fail_at({now().place}, "'where' stands once, before the first statement");
    StatementText s;
    s.left = ref("a statement, as in Y[n, d] = …, or 'return'");
    expect("=", text("'=' after '", s.left.word.name, "[…]'"));
    s.right = expr();
    end_of_line("an operator or the end of the line");
    return s;
  }

  // -- tensors with their dimensions
  RefText ref(std::string_view what) {
    RefText r;
    r.word = name(what);
    expect("[", text("'[': a tensor is always written with its dimensions, as in ", r.word.name,
                     "[n, d]"));
    if (!sees("]")) do
        r.axes.push_back(axis());
      while (takes(","));
    const Token close = expect("]", "',' or ']' after a dimension");
    r.whole = from_to(r.word.place, close.place);
    return r;
  }

  AxisText axis() {
    AxisText a;
    if (now().kind == TokenKind::number) {
      const Token& token = take();
      a.word.place = token.place;
      const auto [end, error] =
          std::from_chars(token.text.data(), token.text.data() + token.text.size(), a.pick);
      if (error != std::errc() || end != token.text.data() + token.text.size())
        fail_at({token.place}, text("'", token.text, "' is not the number of an element"));
      return a;
    }
    a.word = name("a dimension");
    if (takes("<=")) {
      a.bound = name("the dimension that is the largest length");
    } else if (takes("=")) {
      expect("(", text("'(' and the dimensions that '", a.word.name, "' is made of"));
      while (!sees(")")) a.parts.push_back(name("a dimension or ')'"));
      if (a.parts.empty()) expected("the dimensions that the axis is made of");
      take();
    }
    return a;
  }

  // -- expressions, loosest first
  ExprText expr() { return either(); }

  // Counts how deep the calls of the reader are nested, so that no text overflows the stack.
  struct Nesting {
    explicit Nesting(Reader& r) : reader(r) {
      if (++reader.depth_ > deepest) reader.too_deep(reader.now().place);
    }
    ~Nesting() { --reader.depth_; }
    Reader& reader;
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

  ExprText either() {
    const Nesting nesting(*this);
    ExprText e = both();
    while (sees("or")) {
      const Place place = take().place;
      e = joined(Operator::either, place, std::move(e), both());
    }
    return e;
  }

  ExprText both() {
    ExprText e = negation();
    while (sees("and")) {
      const Place place = take().place;
      e = joined(Operator::both, place, std::move(e), negation());
    }
    return e;
  }

  ExprText negation() {
    if (!sees("not")) return comparison();
    const Nesting nesting(*this);
    const Place place = take().place;
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
    if (!is_comparison(now(), op)) return e;
    const Place place = take().place;
    e = joined(op, place, std::move(e), sum());
    if (is_comparison(now(), op))
      fail_at({now().place}, "comparisons do not chain; write 'a < b and b < c'");
    return e;
  }

  ExprText sum() {
    ExprText e = product();
    while (sees("+") || sees("-")) {
      const Operator op = sees("+") ? Operator::add : Operator::subtract;
      const Place place = take().place;
      e = joined(op, place, std::move(e), product());
    }
    return e;
  }

  ExprText product() {
    ExprText e = minus();
    while (true) {
      Operator op{};
      if (sees("*")) op = Operator::multiply;
      else if (sees("/")) op = Operator::divide;
      else if (sees("//")) op = Operator::floor_divide;
      else if (sees("%")) op = Operator::modulo;
      else return e;
      const Place place = take().place;
      e = joined(op, place, std::move(e), minus());
    }
  }

  ExprText minus() {
    if (!sees("-")) return power();
    const Nesting nesting(*this);
    const Place place = take().place;
    std::vector<ExprText> args;
    args.push_back(minus());
    return operation(Operator::minus, place, std::move(args));
  }

  ExprText power() {
    ExprText e = primary();
    if (!sees("^")) return e;
    const Nesting nesting(*this);
    const Place place = take().place;
    return joined(Operator::power, place, std::move(e), minus());
  }

  ExprText primary() {
    ExprText e;
    e.place = now().place;
    if (takes("(")) {
      e = expr();
      expect(")", "an operator or ')'");
      return e;
    }
    if (now().kind == TokenKind::number) return number();
    if (takes("causal")) return e.kind = ExprText::Kind::causal, e;
    if (!is_name(now())) expected("a tensor, a number, a dimension or a function");
    if (after(1).text == "[") {
      e.kind = ExprText::Kind::ref;
      e.ref = ref("a tensor");
      e.place = e.ref.whole;
      return e;
    }
    e.word = name("a name");
    if (!sees("(")) return e.kind = ExprText::Kind::dim, e;
    e.kind = ExprText::Kind::call;
    arguments(e);
    return e;
  }

  ExprText number() {
    const Token& token = take();
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
    expect("(", "'('");
    if (!sees(")")) {
      do {
        if (is_name(now()) && after(1).text == "=") {
          Word key = name("a key");
          take();
          call.keys.push_back(key_value());
          call.keys.back().key = std::move(key);
          call.depth = std::max(call.depth, call.keys.back().depth + 1);
        } else {
          if (!call.keys.empty())
            fail_at({now().place}, "an argument without a name stands before those with one");
          call.args.push_back(expr());
          call.depth = std::max(call.depth, call.args.back().depth + 1);
        }
      } while (takes(","));
    }
    expect(")", "an operator, ',' or ')'");
    if (call.depth > deepest) too_deep(call.place);
  }

  // A list of dimensions, (o w), or an expression.
  ExprText key_value() {
    if (!(sees("(") && is_name(after(1)) && is_name(after(2)))) return expr();
    ExprText e;
    e.kind = ExprText::Kind::group;
    e.place = take().place;
    while (!sees(")")) e.group.push_back(name("a dimension or ')'"));
    take();
    return e;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Program Program::parse(std::string_view text, std::string name) {
  auto source = std::make_shared<const Source>(Source{std::move(name), std::string(text)});
  check_is_text(*source);
  Program program{source, Reader(*source).program()};
  for (size_t i = 0; i < program.defs.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (program.defs[i].word.name == program.defs[k].word.name)
        fail_at({program.defs[i].word.place, program.defs[k].word.place},
                tete::text("'", program.defs[i].word.name, "' is defined twice"));
  return program;
}

const Def* Program::find(std::string_view name) const {
  for (const Def& def : defs)
    if (def.word.name == name) return &def;
  return nullptr;
}

}  // namespace tete
