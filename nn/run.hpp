// The runner: a checked program, statement by statement, through the differentiable operations of
// core/ops.hpp. This is what a text means; whatever is faster is held to it.
#pragma once
#include "nn/forward.hpp"
#include "nn/language/sizes.hpp"

namespace tete {

// What the queries of one call may see; what it leaves empty hides nothing. Masks are ANDed.
struct Mask {
  // Query i sees memory j where j <= i + (m - n): with m > n the last query sees everything, as
  // when the memory holds the past of the queries. position() counts likewise: the last query and
  // the last memory have one position.
  bool causal = false;
  // i64, of the batch's shape: memory j of a sample is there where j < length.
  Tensor lengths = {};
  // 0 or 1, [n, m] or [batch…, n, m]: 1 = may attend.
  Tensor visible = {};

  bool hides_nothing() const { return !causal && !lengths && !visible; }
};

// Runs `program` and returns its result, [batch…, dims of the result].
//
// `sizes` holds what the caller set; the inputs bring the rest. `inputs` are in the order of
// program.inputs, each with its own dimensions or with the batch's before them; real inputs and
// parameters have one real type, integer inputs are i64 or of that type. `params` are the
// parameters, in the order of program.parameters. Every named value and parameter is shown to
// forward.watch as path + "/" + name, as [batch…, dims]; looking changes no bit. Dropout uses
// forward's rate and key, folded with path and name.
//
// Errors (input): sizes that contradict; a mask that no statement takes (R6); a causal mask over a
// program that reads what it hides; positions out of range.
Tensor run(const Checked& program, const SizeTable& sizes, const Tensors& inputs,
           std::span<const ParamId> params, const Forward& forward, const std::string& path = "",
           const Mask& mask = {});

// For one run of a text on tensors given by name.
struct RunOptions {
  SizesByName sizes = {};
  Mask mask = {};
  bool training = false;
  double dropout = 0;
  Key key{0};
  std::function<void(const std::string& name, const Tensor& value)> watch = {};
  Library library = {};
};
using TensorsByName = std::map<std::string, Tensor>;

// Every input and parameter by its name; all sizes that they have are taken from them.
Tensor run(std::shared_ptr<const Checked> program, const TensorsByName& tensors,
           const RunOptions& options = {});
// run("def Scores(X[n, d], M[m, d]): …", {{"X", X}, {"M", M}})
Tensor run(std::string_view text, const TensorsByName& tensors, const RunOptions& options = {});

// A run that is looked into and changed: each value on demand, from the others as they are.
// Values are called by their numbers in program.values. Each is computed once, when it or what
// needs it is first asked for: what is set is set before anything that depends on it is asked for.
class Evaluation {
 public:
  // The same tensors, options and errors as run's; options.watch is not called.
  Evaluation(std::shared_ptr<const Checked> program, const TensorsByName& tensors,
             const RunOptions& options = {});
  Evaluation(Evaluation&&) noexcept;
  ~Evaluation();

  // [batch…, dims], or [dims] where no input with a batch reaches it.
  Tensor value(int number);
  // From now on this is the value; its shape must be the value's.
  void set(int number, const Tensor& x);
  // What the text makes of the values as they are now; it is not kept.
  Tensor anew(int number);
  const Shape& batch() const;
  Index size(int dim) const;
  // 1 where the call's mask lets a query see a memory, else 0; [dims] or [batch…, dims], for
  // dimensions among which there is one query and one memory axis.
  Tensor visible(const Names& dims);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tete
