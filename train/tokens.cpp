#include "train/tokens.hpp"

#include <algorithm>

namespace tete {

Tokens::Tokens(const std::vector<int32_t>& tokens)
    : Tokens(tokens.empty() ? 0 : int64_t{*std::max_element(tokens.begin(), tokens.end())} + 1,
             tokens.size()) {
  for (int32_t token : tokens) push_back(token);
}

Tokens::Tokens(int64_t vocabulary, size_t count) {
  if (vocabulary > 1 << 16) tokens_.emplace<std::vector<int32_t>>();
  else if (vocabulary > 1 << 8) tokens_.emplace<std::vector<uint16_t>>();
  std::visit([count](auto& tokens) { tokens.reserve(count); }, tokens_);
}

void Tokens::push_back(int32_t token) {
  std::visit([token]<class Each>(
                 Each& tokens) { tokens.push_back(static_cast<typename Each::value_type>(token)); },
             tokens_);
}

Index Tokens::size() const {
  return std::visit([](const auto& tokens) { return static_cast<Index>(tokens.size()); }, tokens_);
}

size_t Tokens::bytes() const {
  return std::visit(
      []<class Each>(const Each& tokens) {
        return tokens.capacity() * sizeof(typename Each::value_type);
      },
      tokens_);
}

int32_t Tokens::operator[](Index i) const {
  if (const auto* bytes = std::get_if<std::string>(&tokens_))
    return static_cast<unsigned char>((*bytes)[i]);
  if (const auto* pairs = std::get_if<std::vector<uint16_t>>(&tokens_)) return (*pairs)[i];
  return std::get<std::vector<int32_t>>(tokens_)[i];
}

}  // namespace tete
