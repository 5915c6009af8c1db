// Runs the text on the candidate's tensors: each statement on the candidate's values of its
// operands, each gradient from the candidate's gradients of the statements that use the value.
#pragma once
#include "attention/against/candidate.hpp"

namespace tete {

// A change of the text for one run.
struct Change {
  int value = -1;
  // The statements that use `value` read this function's result in its place.
  std::function<Tensor(const Tensor& x)> seen_as = {};
  int detached = -1;  // no gradient goes from `value` to this operand of it
  std::shared_ptr<const Checked> program = {};  // another text, with the same values
  std::optional<Mask> mask = {};
  // This function is applied to the tensor that is asked for.
  std::function<Tensor(const Tensor& x)> result_as = {};
};

// Every value is multiplied by random factors between 1 - `unit` and 1 + `unit`, as if it had been
// rounded.
struct Rounding {
  double unit = 0;
  Key key{0};
};

enum class From {
  operands,  // each statement is computed from the candidate's values of its operands
  inputs,    // all statements are computed from the inputs and parameters alone
};

// The values `of`, or their gradients, in their order; zeros where no gradient arrives. From
// operands, a gradient is computed from the candidate's gradients of the statements that use the
// value.
Tensors replay(const Candidate& candidate, const std::vector<int>& of, bool gradients, From from,
               const Change& change = {}, const Rounding& rounding = {});

}  // namespace tete
