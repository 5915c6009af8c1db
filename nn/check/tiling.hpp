// What of a program can run a block of queries at a time.
#pragma once
#include "nn/check.hpp"

namespace tete {

// From the dimensions of its statements alone. Everything else of `program` is known.
Tile find_tile(const Checked& program);

}  // namespace tete
