#include "attention/family.hpp"

#include <algorithm>

namespace tete {

namespace {

constexpr const char* order[] = {"dot product", "talking heads", "synthesizers", "long range",
                                 "scores"};

// Families that are not in `order` come last.
size_t rank_of(const std::string& family) {
  return static_cast<size_t>(std::find(std::begin(order), std::end(order), family) - order);
}

}  // namespace

std::string family_of(const Variant& variant) {
  const std::string &text = variant.program->source->text, mark = "\n# Family: ";
  const size_t at = text.find(mark);
  if (at == std::string::npos) return "other";
  const size_t from = at + mark.size(), end = text.find('\n', from);
  const std::string line = text.substr(from, end - from);
  return line.substr(0, line.find_last_not_of(" \t\r") + 1);
}

std::vector<const Variant*> variants_by_family() {
  std::vector<const Variant*> all;
  for (const Variant& variant : variants()) all.push_back(&variant);
  const auto key = [](const Variant* v) {
    const std::string family = family_of(*v);
    return std::tuple(rank_of(family), family, v->name);
  };
  std::sort(all.begin(), all.end(), [&](const auto* a, const auto* b) { return key(a) < key(b); });
  return all;
}

}  // namespace tete
