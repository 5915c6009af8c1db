// The mistake that explains a tensor. Changes of the text that are often made are tried, until one
// gives the candidate's numbers: a factor, two dimensions swapped, another mask, a softmax over
// another dimension, a detach.
#pragma once
#include "nn/against/replay.hpp"

namespace tete {

struct Explanation {
  std::string sentence;  // "as if P_l's h_k and h were swapped"; empty: nothing explains it
  int statement = -1;    // the one with the mistake
  Change change = {};
  bool gave_up = false;  // true: there was more to try than is worth waiting for
};

Explanation explain(const Candidate& candidate, const Compared& compared);

// True if the text with this change gives the numbers of `compared`, from the candidate's values of
// its operands and to the precision of the candidate.
bool reproduces(const Candidate& candidate, const Compared& compared, const Change& change);

}  // namespace tete
