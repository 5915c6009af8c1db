// The catalogue: the texts of attention/variants, attention/amendments, nn/blocks and nn/models,
// which are part of the program. A user's own file works wherever a name does.
#pragma once
#include <string>
#include <vector>

#include "nn/language/check.hpp"

namespace tete {

struct EmbeddedText {
  const char* name;
  const char* text;
};
// Written by attention/embed.sh.
std::span<const EmbeddedText> embedded_variants();
std::span<const EmbeddedText> embedded_amendments();
std::span<const EmbeddedText> embedded_blocks();
std::span<const EmbeddedText> embedded_models();

struct Variant {
  std::string name;   // "talking_heads"
  std::string paper;  // the first line of its comment: what it is, and whose
  std::shared_ptr<const Program> program;
};

// The catalogue, by name.
const std::vector<Variant>& variants();

// True if a file is meant and no name of the catalogue: there is a '/', or ".tete" at the end.
bool is_program_path(const std::string& name_or_path);

// A variant by its name, or by a path where is_program_path says so. Fails on
// an unknown name (with the nearest one) and on a file that is missing, unreadable or no program.
Variant find_variant(const std::string& name_or_path);

// Texts that amend variants (R11): position schemes, biases, dropout; by name. And one of them, by
// its name or a path; fails like find_variant.
const std::vector<Variant>& amendments();
Variant find_amendment(const std::string& name_or_path);

// Texts that fill a model's slots, and whole models; by name. And any text of the catalogue but an
// amendment, by its name or a path; fails like find_variant.
const std::vector<Variant>& blocks();
const std::vector<Variant>& models();
Variant find_text(const std::string& name_or_path);
Variant find_model(const std::string& name_or_path);

// A file of at most 1 MB as a program. Fails with one sentence.
Program read_program(const std::string& path);

// The defs of the catalogue, for texts that call them.
const Library& catalogue();

}  // namespace tete
