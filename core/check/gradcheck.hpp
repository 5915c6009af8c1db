// Gradient checks, for our operations and for yours, in any test framework.
//
//   GradReport report = check_gradient([](const Tensors& in) { return my_op(in[0], in[1]); },
//                                      {x, y}, {.order = 2, .names = {"x", "y"}});
//   CHECK_MESSAGE(report.passed(), report);       // or: if (!report.passed()) std::cerr << report;
//
// In float64, against central differences: first along random directions with a random cotangent
// (never .sum(): a wrong gradient that sums to the right number must not pass); then entry by
// entry, which decides. Slopes that differ are measured again with steps of many sizes, which tells
// a wrong gradient from a kink; and the operation whose own rule is wrong is named.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/check/curve.hpp"
#include "core/check/differences.hpp"
#include "core/graph.hpp"
#include "core/random.hpp"

namespace tete {

struct GradCheckOptions {
  int order = 1;            // 2 also checks the gradient of the gradient, 3 the one after that
  double tolerance = 1e-6;  // relative; ten times as much at each further order
  double step = 1e-4;       // of the differences; each is Richardson-extrapolated from step, step/2
  // If an input and the result have at most this many elements each, every entry of the Jacobian is
  // compared by itself.
  Index full = 64;
  // Otherwise the number of entries sampled from each input (three of four where the gradient is
  // not zero), or all if there are fewer.
  int entries = 24;
  // If given, f is computed there in f32, and held against the processor's f64: no differences are
  // taken. The tolerance is then of each tensor's norm, and `the result` is checked, too.
  Backend* device = nullptr;
  bool explain = true;  // look for the operation at fault, which runs the function again and again
  Key key{0};
  std::vector<std::string> names = {};              // of the inputs
  std::vector<std::vector<std::string>> dims = {};  // of each input's dimensions: P_q[d_X=5, h=2]
  std::vector<std::string> result_dims = {};
};

// One slope: as the gradient claims it, and as differences measure it.
struct Slope {
  double analytic = 0, numeric = 0;
  double error = 0;                // |analytic - numeric| / max(Differences::scale, |numeric|)
  bool of_entry = false;           // otherwise along a random direction
  std::vector<Index> entry = {};   // the input's coordinates, from 0
  std::vector<Index> result = {};  // the result's, in a Jacobian; otherwise a random cotangent
};

struct InputReport {
  std::string input;
  int order = 1;
  Shape shape;
  std::vector<std::string> dims, result_dims;
  Verdict verdict = Verdict::right;
  double error = 0;       // the largest, kinks aside
  Slope along;            // a random direction
  Slope worst;            // the entry of the largest error; at a kink if nothing is wrong
  Index compared = 0;     // slopes
  int kinks = 0;          // of them at a kink, and more may be once a gradient is wrong
  bool severed = false;   // no gradient arrived; right if the verdict is `unreached`
  ErrorCurve curve = {};  // of `worst`, unless that is right
  // The place of `worst`: "P_q[d_X=5, d_k=1, h_k=2]" or "P_q, along a random direction"; and "the
  // result's [n=0, d_Y=3]", if the whole Jacobian was compared.
  std::string place() const;
  std::string result_place() const;
};

enum class FaultKind {
  rule,        // an operation's own gradient rule is wrong, at the inputs that it had
  unrecorded,  // a value reaches the result on a path that the graph does not hold
  kink,        // no rule is wrong, but an operation is at a kink
  value,       // an operation's result is not finite, although its inputs are
  gradient,    // an operation's gradient is not finite, although its inputs are
  unsteady,    // the function does not repeat itself
};

// The cause of a failure, as far as it can be found.
struct Fault {
  FaultKind kind = FaultKind::rule;
  int order = 1;
  std::string operation = {};           // "softmax"; unrecorded: the one that made the value, or ""
  std::string rule = {};                // where it is written: "softmax.cpp:56"
  std::string value = {};               // the named value that it was computed for, or the input
  std::string line = {};                // the statement's place, if it is of a text: "mine.tete:12"
  std::optional<InputReport> own = {};  // rule, kink: the operation checked by itself
  std::string sentence() const;
};

struct GradReport {
  double worst = 0;  // error of all inputs and orders, kinks aside
  std::vector<InputReport> inputs;
  std::optional<Fault> fault;

  bool passed() const;
  // The same as `worst`, for one order.
  double worst_of_order(int order) const;
};
// The table of inputs; for each that fails the curve of its errors; and the fault.
std::ostream& operator<<(std::ostream& out, const GradReport& report);

// f maps the inputs (f64) to one tensor, the same for the same inputs. i64 inputs are passed
// through and not checked. Denormals are honoured while it runs.
GradReport check_gradient(const Function& f, const Tensors& inputs,
                          const GradCheckOptions& options = {});
GradReport check_gradient(const Function& f, const Tensors& inputs, int order);

// If f shows values by name as it computes them (as Forward::watch does), a fault is reported with
// the first such value after it. `watch` may be empty: if (watch) watch(…).
using Watch = std::function<void(const std::string& name, const Tensor& value)>;
using WatchedFunction = std::function<Tensor(const Tensors& inputs, const Watch& watch)>;
GradReport check_gradient(const WatchedFunction& f, const Tensors& inputs,
                          const GradCheckOptions& options = {});

}  // namespace tete
