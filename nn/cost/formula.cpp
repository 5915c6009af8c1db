// Formulas: sums of products of named sizes.
#include <algorithm>

#include "nn/cost.hpp"

namespace tete {

void Formula::add(const std::string& product, Index times) {
  const auto at = std::find_if(terms_.begin(), terms_.end(),
                               [&](const auto& term) { return term.first == product; });
  if (at == terms_.end()) terms_.emplace_back(product, times);
  else at->second += times;
}

Formula& Formula::operator+=(const Formula& other) {
  for (const auto& [product, times] : other.terms_) add(product, times);
  return *this;
}

void Formula::multiply(const std::string& size) {
  for (auto& [product, times] : terms_) product = product == "1" ? size : size + "*" + product;
}

void Formula::multiply(Index times) {
  for (auto& [product, count] : terms_) count *= times;
}

std::string Formula::text() const {
  std::string all;
  for (const auto& [product, times] : terms_)
    all += (all.empty() ? "" : " + ") + (times > 1 ? tete::text(times, "*") : "") + product;
  return all.empty() ? "0" : all;
}

}  // namespace tete
