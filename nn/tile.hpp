// The part of a text that can run a block of queries at a time.
#pragma once
#include "nn/flow.hpp"

namespace tete {

// The statements that run a block of queries at a time: those over queries and memory, those
// between them, and those that read them. A block of queries needs only the same queries' rows of
// the values that the statements are given.
struct Tile {
  std::vector<int> inside = {};  // statements, in their order
  std::vector<int> given = {};   // values computed before, which they read
  std::vector<int> exits = {};   // those of `inside` that later statements read
  // True if a block may leave out the memory that a causal mask hides from all its queries.
  bool may_crop = false;
  // If the program has no tile: a sentence about the statement that prevents one, and its place; ""
  // if no statement is over queries and memory.
  std::string reason = {};
  std::vector<Place> refused_at = {};
};

// A sum over one axis of the memory, of values that are over another of its axes, too: in blocks it
// is computed a strip of the axis at a time (nn/tile/strips.cpp).
struct Strips {
  int dim = -1;                  // the axis
  std::vector<int> inside = {};  // statements that are computed for a strip only; none: given up
  std::vector<int> given = {};   // values that they, or the sum, read
};

// Finds the sums whose memory is read in strips, and marks their statements. find_tile() follows.
void find_strips(Checked& program);
// Finds the tile from the dimensions of the statements. All else in `program` must be filled in.
Tile find_tile(const Checked& program);

}  // namespace tete
