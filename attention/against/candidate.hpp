// The implementation under test: the tensors that it wrote, by their names in the text.
#pragma once
#include <map>

#include "attention/against.hpp"

namespace tete {

// The distance of two tensors. It is infinite if a NaN or an infinity is in one of them only.
struct Distance {
  double farthest = 0;  // the largest |x - y|
  size_t at = 0;        // its entry
  double rms = 0;       // the root of the mean of (x - y)²

  bool within(const Distance& allowed) const {
    return farthest <= allowed.farthest && rms <= allowed.rms;
  }
};
// The distance over all entries but those that are true in `left_out`, which may be empty.
Distance distance(const std::vector<double>& x, const std::vector<double>& y,
                  const std::vector<bool>& left_out);
double largest_of(const std::vector<double>& numbers);

// The text's tensor, and the largest distance that passes. Both measures must pass: if one entry
// jumps (a comparison, a sharp softmax), rounding may explain a large difference there, but not a
// small one everywhere.
struct Expected {
  Tensor tensor;
  Distance allowed;
};

// One tensor of the candidate that the text computes too.
struct Compared {
  int value = -1;
  bool gradient = false;
  Tensor theirs;                   // f64, axes in the text's order
  int bits = 0;                    // of the significand, as its numbers show; 0: unknown
  std::vector<bool> ignored = {};  // true for entries to ignore, row-major; empty: none
  std::string shape = {};          // a sentence if its shape differs from the text's, or ""
  // The statements between it and what was given: those that compute the value from values that
  // were given, itself last; of a gradient, those that use the value, directly or by way of values
  // whose gradients were not given. If it is wrong, the mistake is in one of them.
  std::vector<int> statements = {};
  std::vector<int> operands = {};  // other values that these read
  Expected from_operands = {};     // from the candidate's values of its operands
  Expected from_inputs = {};       // from its inputs and parameters alone

  bool fits() const { return theirs.shape() == from_operands.tensor.shape(); }
};

// The factor f that minimises |theirs - f · text|, from their operands, and what is left:
// |theirs - f · text| / |text|.
struct Factor {
  double factor, error;
};
Factor factor_of(const Compared& c);

// Values go by their numbers in the program; real numbers are f64.
struct Candidate {
  std::shared_ptr<const Checked> program;
  RunOptions options;
  TensorsByName arguments;          // every input and parameter, by name
  std::map<int, Tensor> values;     // all others that were given, each of its value's shape
  std::map<int, Tensor> gradients;  // the result's is the cotangent
  // Values in the text's order, then gradients in the order in which they are computed.
  std::vector<Compared> compared;
  std::vector<std::string> unknown;  // names that the text does not have
  std::shared_ptr<Evaluation> text;  // from the inputs and parameters alone

  const CheckedValue& value(int number) const { return program->values[number]; }
  int count() const { return static_cast<int>(program->values.size()); }
  bool is_argument(int number) const { return program->is_argument(number); }
  // The input or parameter that the value is or renames, or -1.
  int renamed_argument(int number) const;
  // True if backward starts at the value because its gradient was given. The gradient of an input
  // under another name is not used, as it may be the sum over both names.
  bool cuts_backward(int number) const {
    return number == program->result ||
           (gradients.contains(number) && renamed_argument(number) < 0);
  }
  const std::string& name(int number) const { return program->name_of(number); }
  std::vector<bool> marked(const std::vector<int>& numbers) const;  // true for these values
};

// Errors (input): an argument or the cotangent is missing, has another shape or a NaN; there is
// nothing to compare.
Candidate read_candidate(std::shared_ptr<const Checked> program, const TensorsByName& tensors,
                         const AgainstOptions& options);

// The call's mask in the shape of x, a value over `dims`: 1 where a query may attend.
Tensor visible_like(const Tensor& x, const Names& dims, Evaluation& run);

}  // namespace tete
