// Formulas, which are sums of products of named sizes, and counts, each a formula and its numbers.
#include <algorithm>

#include "nn/cost/sizes.hpp"

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

// ---- Counts ----------------------------------------------------------------------------------

Count& Count::operator+=(const Count& other) {
  formula += other.formula;
  multiplies = exact_sum(multiplies, other.multiplies);
  naive = exact_sum(naive, other.naive);
  visible = exact_sum(visible, other.visible);
  return *this;
}

void Count::multiply(Index times) {
  for (Index* number : {&multiplies, &naive, &visible}) *number = exact_product(*number, times);
}

Index Cost::of_batch(Index sequences) const {
  return exact_sum(exact_product(total.multiplies - once, sequences), once);
}

}  // namespace tete
