// The tokens of a text, each in as few bytes as hold all of them: 1, 2 or 4.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/shape.hpp"

namespace tete {

class Tokens {
 public:
  Tokens(const std::vector<int32_t>& tokens);  // NOLINT: the same numbers
  // Each byte is a token: the memory of the text is theirs.
  explicit Tokens(std::string bytes) : tokens_(std::move(bytes)) {}
  // None, of a vocabulary of so many, and room for `count`.
  Tokens(int64_t vocabulary, size_t count);

  void push_back(int32_t token);
  Index size() const;
  size_t bytes() const;  // that they take
  int32_t operator[](Index i) const;

 private:
  std::variant<std::string, std::vector<uint16_t>, std::vector<int32_t>> tokens_;
};

}  // namespace tete
