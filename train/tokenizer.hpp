// Tokenizers: text to numbers and back.
//
// characters: a token is a Unicode character; the vocabulary is the sorted set of the characters
// of a text. bytes: a token is a byte; nothing can be missing from it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/utf8.hpp"

namespace tete {

class Tokenizer {
 public:
  enum class Unit { characters, bytes };

  // The characters of a text. Fails on invalid UTF-8, with the offset of the byte.
  static Tokenizer characters(std::string_view text);
  static Tokenizer bytes();
  // Reads what describe() wrote.
  static Tokenizer read(std::string_view description);
  // A line for a checkpoint: "bytes", or "characters " and the characters as hexadecimal numbers.
  std::string describe() const;

  Unit unit() const { return unit_; }
  int64_t size() const;  // of the vocabulary
  // Fails on a character that the vocabulary lacks, and on invalid UTF-8.
  std::vector<int32_t> encode(std::string_view text) const;
  // The token that begins at byte `at`, which moves behind it.
  int32_t next(std::string_view text, size_t& at) const;
  std::string decode(std::span<const int32_t> tokens) const;
  // The text of one token. Of bytes, one token may be part of a character.
  std::string piece(int32_t token) const;

 private:
  // Fails on what is no character of the vocabulary; `at` is its byte.
  int32_t token_of(const Character& character, size_t at) const;

  Unit unit_ = Unit::bytes;
  std::vector<char32_t> vocabulary_;
};

}  // namespace tete
