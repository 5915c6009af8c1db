#include "nn/language/notation/tokens.hpp"

#include "core/utf8.hpp"

namespace tete {

namespace {

constexpr size_t longest_text = size_t{1} << 20, longest_name = 100;
constexpr std::string_view reserved[] = {"def", "where", "return", "and",
                                         "or",  "not",   "causal", "layer"};

bool is_name_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

void check_is_text(const Source& source) {
  if (source.text.size() > longest_text)
    bad_input(source.name, ": a program has at most ", longest_text, " bytes, this has ",
              source.text.size());
  for (size_t at = 0; at < source.text.size();) {
    const int length = source.text[at] == 0 ? 0 : read_character(source.text, at).length;
    if (length == 0)
      fail_at({{&source, static_cast<uint32_t>(at), 1}}, "this is not a text: byte ", at + 1,
              " of ", source.text.size(), " is not UTF-8");
    at += static_cast<size_t>(length);
  }
}

// Turns characters into tokens.
class Tokenizer {
 public:
  explicit Tokenizer(const Source& source) : source_(source), text_(source.text) {}

  std::vector<Token> all() {
    while (at_ < text_.size()) next();
    if (!open_.empty())
      fail_at({open_.back()}, "this '", text_[open_.back().at], "' is never closed");
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
    if (is_name_letter(c)) return word();
    if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])))
      return number();
    sign();
  }

  void word() {
    size_t end = at_;
    while (end < text_.size() && (is_name_letter(text_[end]) || is_digit(text_[end]))) ++end;
    // Names are limited because a call puts its statement's name before all names of the called
    // def.
    if (end - at_ > longest_name)
      fail_at({place(at_, end)}, "a name has at most ", longest_name, " letters, this has ",
              end - at_);
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
    if (end < text_.size() && is_name_letter(text_[end]))
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
    if (std::string_view("()[],:=<>+-*/%^.").find(c) == std::string_view::npos) {
      fail_at({place(at_, at_ + 1)}, named_character(text_, at_), " has no meaning here");
    }
    if (c == '(' || c == '[') open_.push_back(place(at_, at_ + 1));
    if (c == ')' || c == ']') close(c);
    push(TokenKind::sign, at_ + 1);
  }

  void close(char c) {
    if (open_.empty()) fail_at({place(at_, at_ + 1)}, "nothing is open that '", c, "' closes");
    const char opened = text_[open_.back().at];
    if ((opened == '(') != (c == ')'))
      fail_at({place(at_, at_ + 1), open_.back()}, "'", c, "' does not close the '", opened,
              "' that is open");
    open_.pop_back();
  }

  const Source& source_;
  std::string_view text_;
  size_t at_ = 0;
  std::vector<Place> open_;  // brackets
  std::vector<Token> tokens_;
};

}  // namespace

Tokens::Tokens(const Source& source) {
  check_is_text(source);
  tokens_ = Tokenizer(source).all();
}

void Tokens::expected(std::string_view what) const {
  const std::string got = now().kind == TokenKind::line_end ? "the line ends"
                          : now().kind == TokenKind::text_end
                              ? "the text ends"
                              : text("'", shortened(now().text), "' stands");
  fail_at({now().place}, "expected ", what, ", but here ", got);
}

Token Tokens::expect(std::string_view sign, std::string_view what) {
  if (!sees(sign)) expected(what);
  return take();
}

bool Tokens::is_name(const Token& token) {
  return token.kind == TokenKind::word &&
         std::find(std::begin(reserved), std::end(reserved), token.text) == std::end(reserved);
}

Word Tokens::name(std::string_view what) {
  if (now().kind == TokenKind::word && !is_name(now()))
    fail_at({now().place}, "'", now().text, "' is a word of the notation; expected ", what);
  if (now().kind != TokenKind::word) expected(what);
  const Token& token = take();
  return {std::string(token.text), token.place};
}

}  // namespace tete
