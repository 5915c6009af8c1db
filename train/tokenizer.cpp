#include "train/tokenizer.hpp"

#include <algorithm>
#include <charconv>

namespace tete {

namespace {

// How many bytes a character takes, by its first one; 0 where none begins so.
int length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;  // a continuation byte, or an overlong form of ASCII
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

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

Character read_character(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const int length = length_of(byte(0));
  if (length <= 1) return {byte(0), length};
  if (text.size() - at < static_cast<size_t>(length)) return {};
  char32_t code = byte(0) & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (overlong || surrogate || code > 0x10FFFF) return {};
  return {code, length};
}

void append_character(std::string& text, char32_t code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6), tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12), tail(6), tail(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0);
  }
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const int length = read_character(text, at).length;
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

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

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  if (unit_ == Unit::bytes) {
    for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  for (size_t at = 0; at < text.size();) {
    const Character c = read_character(text, at);
    if (c.length == 0) not_utf8(at);
    const auto found = std::lower_bound(vocabulary_.begin(), vocabulary_.end(), c.code);
    if (found == vocabulary_.end() || *found != c.code)
      bad_input("the character ", name_of_character(c.code), " at byte ", at,
                " is not in the vocabulary: the text that the model was trained on has none");
    tokens.push_back(static_cast<int32_t>(found - vocabulary_.begin()));
    at += c.length;
  }
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
