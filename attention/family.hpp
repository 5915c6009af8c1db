// Families of variants, the order in which the catalogue is told.
#pragma once
#include <string>

#include "attention/catalog.hpp"

namespace tete {

// What a text says of itself in a comment of its own line, "# Family: local.", or else what its
// opening comment is about: "dot product", "talking heads", "synthesizers", "long range", "scores";
// "other" where that tells nothing.
std::string family_of(const Variant& variant);

// The catalogue by family, each by name.
std::vector<const Variant*> variants_by_family();

}  // namespace tete
