// The roles of an attention text's values, found from what they do and not from their names:
// which is the softmax over what is attended to, what enters it, what of two sequences leads there
// and comes from it, and what mixes heads.
#pragma once
#include "nn/language/check.hpp"

namespace tete {

struct Roles {
  // A value over two sequences, by its number in program.values, and the axes of its dimensions;
  // heads: -1 where it has none.
  struct Map {
    int value, rows, columns, heads;
  };
  // The softmax, and what enters it, by their numbers in program.values; -1 where there is none, or
  // where it has no name. `normalised`: the value is the softmax itself, so rows sum to 1 or to 0.
  // `own_mask`: the text itself hides something.
  int weights = -1, logits = -1;
  bool normalised = false, own_mask = false;
  // Real values over queries and what the softmax reduces, and over heads or nothing else, in the
  // order of the text. Of one value under several names the shortest is taken.
  std::vector<Map> maps;
  // Indices into program.parameters: matrices over heads alone that mix them, before the softmax
  // and after.
  std::vector<int> mix_before, mix_after;
  // The value that each head adds, last before heads are summed: the value, and its axis of heads
  // (-1: there is one head).
  int contribution = -1, contribution_heads = -1;
};

Roles roles_of(const Checked& program);

}  // namespace tete
