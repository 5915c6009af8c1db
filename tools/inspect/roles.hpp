// The roles of an attention text's values, found from what they do and not from their names:
// by which of them values are summed, what of two sequences leads there and comes from it, how
// these are made of each other, and what mixes heads.
#pragma once
#include "nn/language/check.hpp"

namespace tete {

struct Roles {
  // A value over two sequences, by its number in program.values, and the axes of its dimensions.
  struct Map {
    int value, rows, columns;
    std::vector<int> others;  // its other axes, outermost first; that of heads is the last
    bool is_softmax;          // over the columns: rows sum to 1 or to 0
    bool is_measured;         // it says how much of each column a row takes
    int heads() const { return others.empty() ? -1 : others.back(); }
  };
  // One map in the expression of another, by their numbers in `maps`. `by` lists the functions and
  // factors on the way. `mixer` is the value that mixes the heads, or -1: each head for itself.
  struct Tie {
    int from, to;
    std::string by;
    double scale = 1;
    int mixer = -1;
    // The mixer's axes: the heads of `from`, those of `to`, and a sequence that has a matrix a
    // position, or -1.
    int mixed = -1, made = -1, sequence = -1;
    bool is_unknown = false;  // heads are mixed by an expression that has no name
  };
  // The map by which values are summed, by its number in program.values: a softmax, or the first
  // that all softmaxes lead to, or without them what is multiplied with the values; -1 where there
  // is none.
  int weights = -1;
  bool own_mask = false;  // the text itself hides something
  // Real values over queries and what is attended to, in the order of the text. Of one value under
  // several names the shortest is taken.
  std::vector<Map> maps;
  std::vector<Tie> ties;  // in the order of `to`
  // Indices into program.parameters: matrices over heads alone that mix them, before the weights
  // and after.
  std::vector<int> mix_before, mix_after;
  // The value that each head adds, last before heads are summed: the value, and its axis of heads
  // (-1: there is one head).
  int contribution = -1, contribution_heads = -1;
};

Roles roles_of(const Checked& program);

}  // namespace tete
