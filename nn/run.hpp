// The runner evaluates a checked program, statement by statement, in the differentiable operations
// of core/ops.hpp. This defines what a text means; the tests hold every faster way to it. run() and
// a Decoder may first write einsums of many operands in twos (nn/run/pairwise.hpp); Evaluation has
// the text's own statements.
#pragma once
#include "nn/forward.hpp"
#include "nn/language/sizes.hpp"

namespace tete {

// The mask of one call: which memory positions each query may attend to. The three parts are ANDed;
// an empty part hides nothing.
struct Mask {
  // Query i may attend to memory j where j <= i + (m - n). So if m > n, as when the memory holds
  // the past of the queries, too, the last query attends to all of it. position() agrees: the last
  // query and the last memory have the same position.
  bool causal = false;
  // i64, of the batch's shape. Memory j of a sample is padding where j >= length.
  Tensor lengths = {};
  // 0 or 1, [n, m] or [batch…, n, m]: 1 = may attend.
  Tensor visible = {};
  // For a part of a model (R17). X and M are of two sequences: `causal` is about X's alone, as are
  // its lengths, and `lengths` about M's.
  bool apart = false;
  Tensor query_lengths = {};
  // True if the model as a whole is what takes the mask: this part need not.
  bool of_model = false;

  bool hides_nothing() const { return !causal && !lengths && !visible && !query_lengths; }
};

// Runs `program` and returns its result, [batch…, dims of the result].
//
// `sizes` has the sizes that the caller set; the inputs and the text give the rest. `inputs` are in
// the order of program.inputs, each with its own dimensions or with the batch's before them; real
// inputs and parameters have one real type, integer inputs are i64 or of that type. `params` are
// the parameters, in the order of program.parameters. Every named value and parameter is shown to
// forward.watch as path + "/" + name, as [batch…, dims]; looking changes no bit. Dropout uses
// forward's rate and key, folded with path and name.
//
// Errors (input): sizes that contradict; a mask that no statement takes (R6); a causal mask over a
// program that reads hidden positions; positions out of range.
Tensor run(const Checked& program, const SizeTable& sizes, const Tensors& inputs,
           std::span<const ParamId> params, const Forward& forward, const std::string& path = "",
           const Mask& mask = {});

// The options of one run of a text on tensors given by name.
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

// `tensors` has every input and parameter by its name; their shapes set the sizes.
Tensor run(std::shared_ptr<const Checked> program, const TensorsByName& tensors,
           const RunOptions& options = {});
// run("def Scores(X[n, d], M[m, d]): …", {{"X", X}, {"M", M}})
Tensor run(std::string_view text, const TensorsByName& tensors, const RunOptions& options = {});

// A run whose values can be read and replaced one by one. `number` is an index into program.values.
// A value is computed when it, or a value that depends on it, is first asked for, and is then
// cached; so a value must be replaced before any value that depends on it is asked for.
class Evaluation {
 public:
  // Takes the tensors and options of run() and fails as it does; options.watch is not called.
  Evaluation(std::shared_ptr<const Checked> program, const TensorsByName& tensors,
             const RunOptions& options = {});
  ~Evaluation();

  // [batch…, dims], or [dims] if the value depends on no input with a batch.
  Tensor value(int number);
  // Replaces the value by x, which must have the value's shape.
  void set(int number, const Tensor& x);
  const Shape& batch() const;
  Index size(int dim) const;
  // 1 where the call's mask lets a query attend to a memory, else 0: [dims] or [batch…, dims].
  // `dims` must contain one query and one memory axis.
  Tensor visible(const Names& dims);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tete
