// The part of a program that can run a block of queries at a time.
#pragma once
#include "nn/language/check.hpp"

namespace tete {

// From the dimensions of its statements alone. Everything else of `program` is known.
Tile find_tile(const Checked& program);

// Dimensions whose size follows from that of a sequence axis of this role, without being one.
std::vector<bool> dimensions_made_of(const Checked& program, Role of);

}  // namespace tete
