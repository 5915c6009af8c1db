#include "train/tokenizer.hpp"

#include <algorithm>
#include <charconv>

#include "core/utf8.hpp"

namespace tete {

namespace {

// "'é' (U+00E9)", or only the number of what cannot be printed.
std::string name_of_character(char32_t code) {
  std::string number(8, '0');
  const auto [end, status] =
      std::to_chars(number.data(), number.data() + 8, static_cast<uint32_t>(code), 16);
  number.resize(end - number.data());
  std::transform(number.begin(), number.end(), number.begin(),
                 [](char c) { return c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c; });
  number = "U+" + std::string(number.size() < 4 ? 4 - number.size() : 0, '0') + number;
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return number;
  std::string shown = "'";
  append_character(shown, code);
  return shown + "' (" + number + ")";
}

[[noreturn]] void not_utf8(size_t at) {
  bad_input("the text is not UTF-8: byte ", at, " does not continue a character");
}

}  // namespace

Tokenizer Tokenizer::characters(std::string_view text) {
  std::vector<bool> seen(0x110000);
  for (size_t at = 0; at < text.size();) {
    const Character c = read_character(text, at);
    if (c.length == 0) not_utf8(at);
    seen[c.code] = true;
    at += c.length;
  }
  Tokenizer tokenizer;
  tokenizer.unit_ = Unit::characters;
  for (char32_t code = 0; code < seen.size(); ++code)
    if (seen[code]) tokenizer.vocabulary_.push_back(code);
  return tokenizer;
}

Tokenizer Tokenizer::bytes() { return {}; }

std::string Tokenizer::describe() const {
  if (unit_ == Unit::bytes) return "bytes";
  std::string line = "characters";
  for (char32_t code : vocabulary_) {
    char digits[8];
    const auto [end, status] = std::to_chars(digits, digits + 8, static_cast<uint32_t>(code), 16);
    line += ' ';
    line.append(digits, end);
  }
  return line;
}

Tokenizer Tokenizer::read(std::string_view description) {
  if (description == "bytes") return bytes();
  const std::string_view word = "characters";
  if (!description.starts_with(word))
    bad_input("expected a vocabulary that begins with 'bytes' or 'characters', got '",
              description.substr(0, 40), "'");
  Tokenizer tokenizer;
  tokenizer.unit_ = Unit::characters;
  const char *at = description.data() + word.size(), *end = description.data() + description.size();
  while (at != end) {
    uint32_t code = 0;
    const auto [next, status] = std::from_chars(at + 1, end, code, 16);
    const bool sorted = tokenizer.vocabulary_.empty() || tokenizer.vocabulary_.back() < code;
    if (*at != ' ' || status != std::errc() || code > 0x10FFFF || !sorted ||
        (code >= 0xD800 && code < 0xE000))
      bad_input("the vocabulary is damaged at its character ", tokenizer.vocabulary_.size());
    tokenizer.vocabulary_.push_back(code);
    at = next;
  }
  return tokenizer;
}

int64_t Tokenizer::size() const {
  return unit_ == Unit::bytes ? 256 : static_cast<int64_t>(vocabulary_.size());
}

int32_t Tokenizer::token_of(const Character& character, size_t at) const {
  if (character.length == 0) not_utf8(at);
  const auto found = std::lower_bound(vocabulary_.begin(), vocabulary_.end(), character.code);
  if (found == vocabulary_.end() || *found != character.code)
    bad_input("the character ", name_of_character(character.code), " at byte ", at,
              " is not in the vocabulary: the text that the model was trained on has none");
  return static_cast<int32_t>(found - vocabulary_.begin());
}

int32_t Tokenizer::next(std::string_view text, size_t& at) const {
  if (unit_ == Unit::bytes) return static_cast<unsigned char>(text[at++]);
  const Character c = read_character(text, at);
  const int32_t token = token_of(c, at);
  at += c.length;
  return token;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (size_t at = 0; at < text.size();) tokens.push_back(next(text, at));
  return tokens;
}

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (int32_t token : tokens) text += piece(token);
  return text;
}

std::string Tokenizer::piece(int32_t token) const {
  if (token < 0 || token >= size())
    bad_input("token ", token, " is not in the vocabulary of ", size(), " tokens");
  if (unit_ == Unit::bytes) return std::string(1, static_cast<char>(token));
  std::string text;
  append_character(text, vocabulary_[token]);
  return text;
}

}  // namespace tete
