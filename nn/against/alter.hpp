// Texts that say almost the same: what people write by mistake.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "nn/run.hpp"

namespace tete {

struct Alteration {
  std::string sentence;  // "as if softmax went over n, not over m"
  std::shared_ptr<const Checked> program;
};

// One function or operation of a statement is another or is left out: a softmax over another
// dimension, without its mask or with the mask after it; relu left out; one term of a sum; ….
std::vector<Alteration> alterations(const Checked& program, int statement);

// The program with no softmax that takes the call's mask.
std::shared_ptr<const Checked> without_masks(const Checked& program);

// The call's mask forgotten, inverted, transposed, without the diagonal, …; or a causal one where
// none is given. `run` is any run of the program.
struct OtherMask {
  std::string sentence;
  Mask mask;
};
std::vector<OtherMask> other_masks(const Checked& program, Evaluation& run, const Mask& mask);

// The program's query and memory axis that some softmax's mask is over: two names, or none.
Names masked_pair(const Checked& program);
// Whether the value, elementwise, is what such a softmax is taken of.
bool enters_masked_softmax(const Checked& program, int value);

}  // namespace tete
