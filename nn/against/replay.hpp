// The text, run on the candidate's tensors: each statement from the candidate's values of its
// operands, each gradient from its gradients of the statements that use it.
#pragma once
#include "nn/against/candidate.hpp"

namespace tete {

// How a run departs from the text.
struct Change {
  int value = -1;
  // The statements that use `value` read this in its place.
  std::function<Tensor(const Tensor& x, Evaluation& run)> seen_as = {};
  // `value` is computed as this, not as the text says.
  std::function<Tensor(Evaluation& run)> computed_as = {};
  std::shared_ptr<const Checked> program = {};  // another text, with the same values
  std::optional<Mask> mask = {};
  // The tensor that is asked for becomes this.
  std::function<Tensor(const Tensor& x)> result_as = {};
};

// Every value is multiplied by 1 ± `unit` at most, at random, as if it had been rounded.
struct Rounding {
  double unit = 0;
  Key key{0};
};

enum class From {
  operands,  // each statement on its own, from the candidate's values of its operands
  inputs,    // from the inputs and parameters alone
};

// The values `of`, in their order.
Tensors replay_values(const Candidate& candidate, const std::vector<int>& of, From from,
                      const Change& change = {}, const Rounding& rounding = {});

// The gradients of `of`, in their order; zeros where none arrives. From operands: by way of the
// statements that use a value, from the candidate's gradients of these.
Tensors replay_gradients(const Candidate& candidate, const std::vector<int>& of, From from,
                         const Change& change = {}, const Rounding& rounding = {});

// The statements that compute value `of` from the values that were given, itself last: if it is
// wrong, the mistake is in one of them. Appends the given values that they read to `operands`.
std::vector<int> statements_to(const Candidate& candidate, int of,
                               std::vector<int>* operands = nullptr);
// The statements that use `of`, directly or by way of values whose gradients were not given.
std::vector<int> statements_from(const Candidate& candidate, int of);

}  // namespace tete
