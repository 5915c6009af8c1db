// Somebody else's implementation of a text, held against it: what agrees, where theirs first parts
// from the text, and what the mistake looks like.
//
//   const AgainstReport r = check_against(load_attention("talking_heads"),
//       {{"X", X}, {"M", M}, {"P_q", P_q}, …, {"L", L}, {"Y", Y},
//        {"grad:Y", gY}, {"grad:P_q", gP_q}, …});
//   if (r.first >= 0) FAIL(r.tensors[r.first].name);
//
// Every statement is computed in float64 twice: from their own values of its operands, so that one
// mistake does not make everything after it look wrong, and from the inputs and parameters alone.
#pragma once
#include "nn/run.hpp"

namespace tete {

struct AgainstOptions {
  SizesByName sizes = {};  // that no tensor brings
  Mask mask = {};
  // How much of a tensor's largest entry an entry may be off; 0: some times what rounding to the
  // precision of theirs does to the text's own values.
  double tolerance = 0;
};

struct Guess {
  std::string sentence;  // "as if P_l's h_k and h were swapped"; empty: nothing explains it
  int statement = -1;    // where the mistake is, by its number in program.values
};

struct TensorReport {
  enum class Verdict {
    agrees,   // from their operands or from ours
    follows,  // it differs, but only because something before it does
    differs,  // even from their operands
  };
  std::string name;  // "L", "grad:P_q"
  int value = -1;    // its number in program.values
  bool gradient = false;
  Verdict verdict = Verdict::agrees;
  double largest = 0;      // of the text's entries, from their operands
  double difference = 0;   // the largest |theirs - text|, from their operands; infinite for a NaN
  double from_ours = 0;    // the same, from the inputs and parameters alone
  double tolerance = 0;    // what `difference` may be
  std::string entry = {};  // where it is largest: "L[batch=1, n=2, m=0, h=1]"
  double theirs = 0, text = 0;  // there
  std::string shape = {};       // what is wrong with its shape, or ""
  std::string cause = {};       // follows: what it follows from
  Guess guess = {};             // differs
  // differs: the statements between what they gave and this, which they did not give
  std::vector<int> unseen = {};
};

struct AgainstReport {
  // Values in the text's order, then gradients in the order in which they are computed.
  std::vector<TensorReport> tensors;
  int first = -1;                    // the first of them that differs
  std::vector<std::string> unknown;  // names of theirs that the text does not have
  const char* precision = "";        // that theirs were computed in: "float16", …, as it looks
  bool agrees() const { return first < 0; }
};

// `theirs` holds every input and parameter, any of the values that the text names, and gradients
// "grad:NAME" together with the result's, the cotangent that they come from.
// Errors (input): what is missing or does not fit; nothing to compare.
AgainstReport check_against(std::shared_ptr<const Checked> program, const TensorsByName& theirs,
                            const AgainstOptions& options = {});

// An axis of a value's tensor of this rank: "batch" (or "batch0", "batch1", …), "n", "d_k".
std::string axis_name(const Checked& program, int value, int rank, int axis);
// "L[batch=1, n=2, h=0]": the entry of a value's tensor with this row-major number.
std::string entry_name(const Checked& program, int value, const Shape& shape, Index number);

}  // namespace tete
