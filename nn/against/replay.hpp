// The text, run on what another implementation computed: each statement from their values of its
// operands, each gradient from their gradients of what uses it.
#pragma once
#include <map>

#include "nn/run.hpp"

namespace tete {

// What they gave, by the numbers of the program's values; real numbers are f64.
struct Theirs {
  std::shared_ptr<const Checked> program;
  TensorsByName arguments;          // every input and parameter, by name
  std::map<int, Tensor> values;     // other values, each of its value's shape
  std::map<int, Tensor> gradients;  // the result's is the cotangent
  RunOptions options;

  const CheckedValue& value(int number) const {
    return program->values[static_cast<size_t>(number)];
  }
  bool is_argument(int number) const { return program->is_argument(number); }
  // The input or parameter that the value is, maybe under another name, or -1.
  int renamed_argument(int number) const;
  const std::string& name(int number) const { return program->name_of(number); }
};

// How a run departs from the text.
struct Change {
  int value = -1;
  // What uses `value` sees this of it.
  std::function<Tensor(const Tensor& x, Evaluation& run)> seen_as = {};
  // `value` is this, not what the text says.
  std::function<Tensor(Evaluation& run)> computed_as = {};
  std::shared_ptr<const Checked> program = {};  // another text, with the same values
  std::optional<Mask> mask = {};
};

// Every value is off by up to `unit` of itself, as if it had been rounded.
struct Rounding {
  double unit = 0;
  Key key{0};
};

enum class From {
  theirs,  // each statement on its own, from their values of its operands
  ours,    // from the inputs and parameters alone
};

// The values `of`, in their order.
Tensors replay_values(const Theirs& theirs, const std::vector<int>& of, From from,
                      const Change& change = {}, const Rounding& rounding = {});

// The gradients of `of`, in their order and in the shape of what was given; zeros where none
// arrives. From theirs: of the statements that use a value, from their gradients of these.
Tensors replay_gradients(const Theirs& theirs, const std::vector<int>& of, From from,
                         const Change& change = {}, const Rounding& rounding = {});

// The statements that lead to value `of` from what they gave, itself last: what may have gone wrong
// if it is not what the text makes of their values. Their operands are in `operands`, if asked for.
std::vector<int> stretch_to(const Theirs& theirs, int of, std::vector<int>* operands = nullptr);
// The statements that use `of`, directly or by way of values whose gradients they did not give.
std::vector<int> stretch_from(const Theirs& theirs, int of);

}  // namespace tete
