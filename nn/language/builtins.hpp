// The functions of the notation: one table, a row each.
//
// One file of nn/language/builtins/ has all of a function: its row and the three functions there.
//   check  (nn/language/check/reading.hpp)    finds the result's names and refuses wrong uses
//   run    (nn/run/runner.hpp)                computes the value by operations of core/ops.hpp
//   flow   (nn/flow/finder.hpp)               tells which positions it reads and what stays hidden
// To add one, put these into the file of its kind, or into a new one (gather.cpp has all three;
// elementwise.cpp and reduction.cpp need one line a function). A new file is named in
// nn/language/builtins.cpp and in nn/meson.build. tests/builtins.cpp walks the table and runs
// the examples.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.hpp"
#include "nn/flow.hpp"
#include "nn/param.hpp"

namespace tete {

struct ExprText;
struct Node;
struct CallFlow;
struct Value;
class FlowFinder;
class Reading;
class Runner;

// The kind of a value's elements. Only real numbers carry a gradient; whole numbers and truth
// values (0 or 1) are untracked tensors of the run's real type.
enum class Element : uint8_t { real, whole, truth };
const char* describe(Element element);

enum class KeyKind : uint8_t {
  dim,     // a dimension, by its name
  dims,    // a list of them, (o w)
  number,  // known from sizes alone
  real,    // real numbers, with names of the left
  truth,   // truth values, with names of the left
};

// A key of a function: reduced_dim=m, into=(o w), stride=2, mask=V[n, m].
struct KeyRow {
  const char* name;
  KeyKind kind;
  bool required = true;
};

// The name of a function that is used like this: "exp" of "exp(x)".
constexpr std::string_view name_in(std::string_view usage) {
  return usage.substr(0, usage.find('('));
}

// The number of a function's arguments without a name.
struct ArgumentCount {
  int least = 1, most = least;
};

struct Builtin {
  const char* usage;
  const char* meaning;
  const char* example;  // a statement; `tete functions` prints it
  std::string_view name = name_in(usage);
  ArgumentCount arguments = {};
  std::span<const KeyRow> keys = {};  // the first names the special dimension, if there is one
  // The elements of the result: `result`, or if keeps_element those of the arguments.
  Element result = Element::real;
  bool keeps_element = false;
  // True if a result depends on how many positions the memory has, beyond sums of them: a block of
  // queries then may not leave out the memory that a causal mask hides from it.
  bool counts_positions = false;
  // True if its rows read a few earlier ones, which a decoder caches (Runner::tail).
  bool reads_earlier_rows = false;
  // True if it hides positions: it takes the call's mask and mask=.
  bool masks = false;
  // True if a row of the result reads other rows along the dimensions that its keys name: blocks
  // then are not cut along these.
  bool combines_positions = true;
  // True if the result has no storage of its own.
  bool is_view = false;
  // True if it multiplies its arguments and sums the names that the left lacks.
  bool contracts = false;
  // True if it sums the names that the left lacks.
  bool adds = false;
  // True if its first argument chooses one of the others.
  bool chooses = false;
  // True if it keeps its first argument between the others.
  bool clips = false;
  // True if its values are the positions of a sequence.
  bool is_position = false;
  // The elementwise functions that are sought under its name, or null.
  const char* elementwise = nullptr;
  // The operation of core that it is, if it is one of a single number.
  Unary unary = Unary::count;
  // An elementwise function of tensors of one shape; sizes are computed by it, too. Else null.
  Tensor (*apply)(const Tensors& args) = nullptr;

  // Fills in the arguments, names and elements of `node`, the call that `e` writes. The number of
  // arguments is checked and the keys are read before.
  void (*check)(Reading& reading, const ExprText& e, Node& node);
  Value (*run)(Runner& runner, const Node& node);
  // Changes `out`, the flow of its arguments and keys, into that of the result: which positions it
  // reads, and which numbers it holds where a mask hides the data. Reports what a mask does not
  // protect. Null: an element follows from the arguments' elements in the same row.
  void (*flow)(FlowFinder& finder, const CallFlow& call, ValueFlow& out) = nullptr;
};

// All rows, by kind.
std::span<const Builtin> builtins();
const Builtin* find_builtin(std::string_view name);

// An initialiser of parameters: normal(deviation), … Its example is an argument of a def.
struct InitializerRow {
  const char* usage;
  const char* meaning;
  const char* example;
  InitializerKind kind;
  int args;
  std::string_view name = name_in(usage);
};
std::span<const InitializerRow> initializers();

}  // namespace tete
