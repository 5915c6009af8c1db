// The functions of the notation: one table, a row each.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "nn/param.hpp"

namespace tete {

// What the elements of a value are. Only real ones carry a gradient; whole numbers and truth
// values (0 or 1) are untracked tensors of the run's real type.
enum class Element : uint8_t { real, whole, truth };
const char* describe(Element element);

// How a function treats names. Expected names flow from the left of a statement through `each` and
// `along`; they stop at the others, whose first arguments are tensors.
enum class Form : uint8_t {
  einsum,     // tensors in; the result has exactly the expected names
  each,       // elementwise: broadcast by name
  along,      // every name stays, one is special: softmax over it, noise shared along it
  reduction,  // the names of its tensor but one
  positions,  // a dimension in, whole numbers out
  visible,    // the call's mask
  gather,
  concat,
};

// What a row's implementation is given.
struct Application {
  Tensors args;            // of one shape
  int axis = -1;           // the special or reduced dimension; -1: none
  Tensor mask = {};        // of args[0]'s shape, or empty
  double rate = 0;         // of dropout
  Key key{0};              // of its noise
  uint64_t first = 0;      // global number of the first sample
  bool by_sample = false;  // whether args[0]'s first dimension is samples
};

struct Builtin {
  const char* name;
  const char* usage;
  const char* meaning;
  Form form = Form::each;
  int least = 1, most = 1;        // arguments without a name
  const char* dim_key = nullptr;  // the key that names the special dimension
  bool dim_required = true;
  bool takes_mask = false;  // mask=
  Element argument = Element::real, result = Element::real;
  bool keeps_element = false;  // the result's elements are what the argument's are
  Tensor (*apply)(const Application&) = nullptr;  // null where nn/run.cpp does it by names
};

std::span<const Builtin> builtins();
const Builtin* find_builtin(std::string_view name);

// How a parameter starts: normal(deviation), …
struct InitializerRow {
  const char* name;
  const char* usage;
  Initializer::Kind kind;
  int args;
};
std::span<const InitializerRow> initializers();

}  // namespace tete
