// What of a program can run a block of queries at a time, and a block a piece of its memory at a
// time.
#pragma once
#include "nn/language/check.hpp"

namespace tete {

// From the dimensions of its statements alone. Everything else of `program` is known.
Tile find_tile(const Checked& program);

// How the statements of `tile` go through the memory in pieces; empty where one of them needs all
// of it at once.
std::vector<Tile::Pass> find_passes(const Checked& program, const Tile& tile);

// Tile::goes_back.
bool passes_go_back(const Checked& program, const Tile& tile);

// Dimensions whose size follows from that of a sequence axis of this role, without being one.
std::vector<bool> dimensions_made_of(const Checked& program, Role of);

}  // namespace tete
