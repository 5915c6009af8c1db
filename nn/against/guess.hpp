// What a mistake looks like: changes of the text are tried until one gives what theirs gives.
#pragma once
#include "nn/against.hpp"
#include "nn/against/replay.hpp"

namespace tete {

// A tensor of theirs that is not what the text makes of their values.
struct Suspect {
  int value;
  bool gradient;
  Tensor theirs, text;
  std::vector<bool> ignored;  // entries, in row-major order; empty: none
  double tolerance;           // absolute
  double largest;             // of the text's entries
  double unit;                // relative rounding error of theirs
};

// Whether every entry of `theirs` is as far from `text` as the tolerance allows; the tolerance
// grows where `text` is larger than the text's own.
bool explains(const Suspect& suspect, const Tensor& text);

Guess guess_at(const Theirs& theirs, const Suspect& suspect);

}  // namespace tete
