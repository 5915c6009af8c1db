// Compares another implementation's tensors with a text: reports the tensors that agree, the first
// that differs, and a mistake that would explain it.
//
//   const AgainstReport r = check_against(load_attention("talking_heads"),
//       {{"X", X}, {"M", M}, {"P_q", P_q}, …, {"L", L}, {"Y", Y},
//        {"grad:Y", gY}, {"grad:P_q", gP_q}, …});
//   if (r.first >= 0) FAIL(r.tensors[r.first].name);
//
// Every statement is computed in float64 twice: from their own values of its operands, so that one
// mistake does not make everything after it look wrong, and from the inputs and parameters alone.
// Once a mistake is explained, a tensor that the text with that mistake reproduces is no second
// one.
#pragma once
#include "nn/run.hpp"

namespace tete {

struct AgainstOptions {
  SizesByName sizes = {};  // those that no tensor's shape gives
  Mask mask = {};
  // The largest error of an entry that passes, as a share of the tensor's largest entry. 0:
  // multiples of the largest and of the root-mean-square error that rounding makes in the text's
  // own values, in the precision that their numbers show.
  double tolerance = 0;
  // The significand's bits of tensors that were stored in less than their type: 11 for float16, 8
  // for bfloat16.
  std::map<std::string, int> stored_bits = {};
};

struct Guess {
  // "as if P_l's h_k and h were swapped": the text with this mistake gives their numbers. Empty if
  // no mistake that is known here does.
  std::string sentence;
  int statement = -1;    // the statement with the mistake, by its number in program.values
  bool gave_up = false;  // true: there were too many statements to try all known mistakes
};

struct TensorReport {
  enum class Verdict {
    agrees,   // with the text on their operands or on ours
    follows,  // it differs, but only because a tensor before it does
    differs,  // from the text even on their operands
  };
  std::string name;  // "L", "grad:P_q"
  int value = -1;    // its number in program.values
  bool gradient = false;
  Verdict verdict = Verdict::agrees;
  double largest = 0;        // the text's largest entry, from their operands
  double difference = 0;     // the largest |theirs - text|, from their operands; infinite for a NaN
  double from_ours = 0;      // the same, from the inputs and parameters alone
  double tolerance = 0;      // the largest `difference` that passes
  double rms = 0;            // the root mean square of theirs - text, from their operands
  double rms_tolerance = 0;  // the largest `rms` that passes
  std::string entry = {};    // the entry of `difference`: "L[batch=1, n=2, m=0, h=1]"
  double theirs = 0, text = 0;  // the two numbers of that entry
  bool finite = true;           // false: there theirs is NaN or infinite, and the text's is not
  std::string shape = {};       // how its shape differs, or ""
  std::string cause = {};       // follows: the tensor that shows the mistake
  Guess guess = {};             // differs
  // differs: the statements that lead to it but whose values are not in the file
  std::vector<int> unseen = {};
};

struct AgainstReport {
  // Values in the text's order, then gradients in the order in which they are computed.
  std::vector<TensorReport> tensors;
  int first = -1;                    // the first tensor that differs
  std::vector<std::string> unknown;  // names of theirs that the text does not have
  const char* precision = "";  // the coarsest precision that their numbers show: "float16", …
  bool agrees() const { return first < 0; }
};

// `theirs` holds every input and parameter, any of the values that the text names, and gradients
// "grad:NAME" together with the result's, the cotangent that they come from.
// Errors (input): a tensor that is missing, has a wrong shape, or is an input with a NaN; nothing
// to compare.
AgainstReport check_against(std::shared_ptr<const Checked> program, const TensorsByName& theirs,
                            const AgainstOptions& options = {});

// An axis of a value's tensor of this rank: "batch" (or "batch0", "batch1", …), "n", "d_k".
std::string axis_name(const Checked& program, int value, int rank, int axis);
// "L[batch=1, n=2, h=0]": the entry of a value's tensor with this row-major number.
std::string entry_name(const Checked& program, int value, const Shape& shape, Index number);

}  // namespace tete
