// The call's mask in a program, and the masks that people apply by mistake.
#pragma once
#include "nn/against/candidate.hpp"

namespace tete {

// The program's query and memory axis that some softmax's mask is over: two names, or none.
Names masked_pair(const Checked& program);
// True if a softmax that takes the call's mask reads the value directly or elementwise.
bool enters_masked_softmax(const Checked& program, int value);
bool takes_call_mask(const Node& node);

// True for the entries of x that the mask hides, row-major, if x is a large negative number in all
// of them: logits that were saved with the mask applied. Their softmax ignores these entries.
// Otherwise empty.
std::vector<bool> masked_already(const Candidate& candidate, int value, const Tensor& x,
                                 Evaluation& run);

// x with `fill` at the entries that the call's mask hides; `dims` are x's.
Tensor filled_where_hidden(const Tensor& x, const Names& dims, Evaluation& run, double fill);

// The entries, row-major, of a value's tensor of this shape that belong to queries which see no
// memory under the run's mask. Empty if there are none.
std::vector<bool> blind_entries(const Checked& program, int value, const Shape& shape,
                                Evaluation& run);

// The program with no softmax that takes the call's mask.
std::shared_ptr<const Checked> without_masks(const Checked& program);

// The call's mask forgotten, inverted, transposed, without the diagonal, …; or a causal one where
// none is given. `run` is any run of the program.
struct OtherMask {
  std::string sentence;  // "as if no mask were applied"
  Mask mask;
};
std::vector<OtherMask> other_masks(const Checked& program, Evaluation& run, const Mask& mask);

}  // namespace tete
