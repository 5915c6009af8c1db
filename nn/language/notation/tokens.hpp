// Tokens: the words, numbers and signs of a text, and the place among them that a reader is at.
#pragma once
#include <algorithm>

#include "nn/language/notation.hpp"

namespace tete {

enum class TokenKind : uint8_t { word, number, sign, line_end, text_end };

struct Token {
  TokenKind kind;
  std::string_view text;
  Place place;
};

class Tokens {
 public:
  // Fails on a source that is no text, a character without a meaning and brackets that do not
  // match.
  explicit Tokens(const Source& source);

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
  // Fails with "expected `what`, but here … stands".
  [[noreturn]] void expected(std::string_view what) const;
  Token expect(std::string_view sign, std::string_view what);
  // Takes a name; fails on a word of the notation, like 'where'.
  Word name(std::string_view what);
  static bool is_name(const Token& token);

 private:
  std::vector<Token> tokens_;  // the last is the text's end
  size_t at_ = 0;
};

}  // namespace tete
