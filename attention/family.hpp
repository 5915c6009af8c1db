// Families of variants, the order in which the catalogue is told.
#pragma once
#include <string>

#include "attention/catalog.hpp"

namespace tete {

// The family that the text states below its opening line, as "# Family: long range"; or "other".
std::string family_of(const Variant& variant);

// The catalogue by family, each by name.
std::vector<const Variant*> variants_by_family();

}  // namespace tete
