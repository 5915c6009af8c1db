// The mistake that explains a tensor. Changes of the text that are often made are tried, until one
// gives the candidate's numbers: a factor, two dimensions swapped, another mask, a softmax over
// another dimension, a detach.
#pragma once
#include "attention/against/replay.hpp"

namespace tete {

struct Explanation {
  Guess guess;
  Change change = {};  // with it, the text gives the tensor
};

Explanation explain(const Candidate& candidate, const Compared& compared);

// True if the text with this change gives the numbers of `compared`, from the candidate's values of
// its operands and to the precision of the candidate.
bool reproduces(const Candidate& candidate, const Compared& compared, const Change& change);

}  // namespace tete
