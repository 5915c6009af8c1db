// The part of a program that can run a block of queries at a time.
#pragma once
#include "nn/language/check.hpp"

namespace tete {

// Finds the tile from the dimensions of the statements. All else in `program` must be filled in.
Tile find_tile(const Checked& program);

// True for each dimension whose size follows from that of a sequence axis of this role but that is
// none itself.
std::vector<bool> dimensions_made_of(const Checked& program, Role of);

}  // namespace tete
