#include "attention/family.hpp"

#include <algorithm>

namespace tete {

namespace {

// A word of the opening comment and the family that it means; the first that is there counts.
struct FamilyRow {
  const char *word, *family;
};
constexpr FamilyRow rows[] = {
    {"Synthesizer", "synthesizers"},
    {"Talking", "talking heads"},
    {"bilinear multi", "talking heads"},
    {"Linformer", "long range"},
    {"BigBird", "long range"},
    {"window", "long range"},
    {"compressed", "long range"},
    {"scores", "scores"},
    {"Additive", "scores"},
    {"Multi-", "dot product"},
    {"Dot-product", "dot product"},
    {"query", "dot product"},
};
constexpr const char* order[] = {"dot product", "talking heads", "synthesizers", "long range",
                                 "scores"};

// Of families that are not in `order`: they come last.
size_t rank_of(const std::string& family) {
  return static_cast<size_t>(std::find(std::begin(order), std::end(order), family) - order);
}

std::string stated_family(const std::string& text) {
  const std::string mark = "# Family: ";
  const size_t at = text.starts_with(mark) ? 0 : text.find("\n" + mark);
  if (at == std::string::npos) return "";
  const size_t from = text.find(':', at) + 2;
  const size_t end = std::min(text.find('\n', from), text.size());
  std::string name = text.substr(from, end - from);
  while (!name.empty() && (name.back() == '.' || name.back() == ' ')) name.pop_back();
  return name;
}

}  // namespace

std::string family_of(const Variant& variant) {
  if (std::string stated = stated_family(variant.program->source->text); !stated.empty())
    return stated;
  const std::string title = variant.paper.substr(0, variant.paper.find(". "));
  for (const FamilyRow& row : rows)
    if (title.find(row.word) != std::string::npos) return row.family;
  return "other";
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
