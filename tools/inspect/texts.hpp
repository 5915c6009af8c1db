// The texts of a model's attention, with what their lines cost and define.
#pragma once
#include "tools/inspect/site.hpp"

namespace tete {

// The text at a site, at the sizes of the model and of these sequences.
VariantText text_of(const SitePlace& place, Index rows, Index columns);

// Distinct texts, by number.
class Texts {
 public:
  int add(VariantText text);
  const std::vector<VariantText>& all() const { return texts_; }

 private:
  std::vector<VariantText> texts_;
};

}  // namespace tete
