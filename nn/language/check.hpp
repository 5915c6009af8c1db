// The checker: a tree becomes statements whose names are resolved, or an error with a caret.
//
// Everything that can be known without sizes is decided here: what every name refers to, which
// names an expression has, what carries a gradient, which softmax takes the call's mask. Calls of
// other defs are written out in place: a tensor Q of the def called by statement Y becomes "Y.Q",
// and its dimensions are dimensions of their own that take their sizes from the call.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/language/builtins.hpp"
#include "nn/language/notation.hpp"

namespace tete {

// A sequence axis: X's first is the queries', M's first the memory's. It follows the axis through
// calls.
enum class Role : uint8_t { none, query, memory };

using Names = Short<int>;  // dimensions, by their number in Checked

// An expression with its names resolved.
struct Node {
  // `quantity`: a number, known from sizes alone
  enum class Kind : uint8_t { number, size, causal, value, operation, call };
  struct RefAxis {
    Index pick = -1;   // this element, or
    Names parts = {};  // this dimension, seen as these (itself, if it is not split)
  };
  struct Key {
    Place place = {};
    int dim = -1;                  // reduced_dim=m
    Names dims = {};               // into=(o w)
    std::vector<Node> value = {};  // mask=V[n, m], stride=2: one if it is given
  };
  Kind kind = Kind::number;
  Place place;
  double number = 0;
  int index = -1;                  // size: the dimension; value: the value
  bool plain = true;               // value: as it was defined
  std::vector<RefAxis> axes = {};  // value, if not plain
  Operator op = Operator::add;
  const Builtin* builtin = nullptr;
  bool takes_call_mask = false;  // call: the mask of the call is ANDed with mask=
  std::vector<Node> args = {};
  std::vector<Key> keys = {};  // call: as the rows of its builtin, given or not
  Names names = {};            // of the result
  Element element = Element::real;
  bool constant = true;  // a number that sizes decide; it has no names

  // The special dimension of a call, which its first key names, or -1.
  int dim() const { return keys.empty() ? -1 : keys[0].dim; }
};

// Whether it is a call of this builtin.
inline bool calls(const Node& node, std::string_view builtin) {
  return node.builtin && node.builtin->name == builtin;
}

// `node` and all below it.
template <class See>
void visit(const Node& node, const See& see) {
  see(node);
  for (const Node& arg : node.args) visit(arg, see);
  for (const Node::Key& key : node.keys)
    for (const Node& value : key.value) visit(value, see);
}

struct Dimension {
  std::string name;  // as errors and callers call it: "d_k", "Y.d_k"
  // The name in the text that it stands in: "d_k" of "Y.d_k".
  std::string short_name() const { return name.substr(name.rfind('.') + 1); }
  Place place;  // where it is first written
  Role role = Role::none;
  bool head = false;  // a batch axis of some einsum, not a sequence
  // Where its size comes from if the caller does not give it, best first.
  struct Equal {
    int dim;
    Place place;
  };
  std::vector<Equal> arguments = {};  // of the call
  std::vector<Node> fallback = {};    // `where`, none or one
  Place fallback_place = {};
  Names product = {};               // merged on the left of a statement
  int outer = -1;                   // the calling def's dimension of the same name
  std::vector<Equal> results = {};  // of a call
};

// What the sizes of a run must satisfy.
struct Condition {
  enum class Kind : uint8_t { equal, product, room, element } kind;
  int dim;
  Names others = {};  // equal: one; product: the parts; room: the largest length
  Index pick = 0;     // element
  Place place = {}, other_place = {};
};

struct CheckedValue {
  enum class Kind : uint8_t { input, parameter, same, statement };
  std::string name;  // "L", "Y.L"
  Kind kind = Kind::statement;
  Place place = {};                     // its name and dimensions, where it is defined
  std::vector<Place> axis_places = {};  // input, parameter
  Names dims = {};
  Names bounds = {};  // parameter: the largest length of each dimension, or -1
  Element element = Element::real;
  int index = -1;                  // input, parameter: its number; same: the other value
  Names names = {};                // statement: dims before they are merged
  Node right = {};                 // statement
  int below = -1;                  // integer input: values are 0 … size of this dimension - 1
  bool watched = true;             // offered to whoever looks
  Short<int> layout = {};          // order in memory of `names` (or dims), outermost first
  std::vector<int> uses = {};      // values that it is made from, once for each time
  std::vector<int> finished = {};  // values that nothing after this one uses
};

struct CheckedParameter {
  std::string name;  // "P_q"; "Y.P_q" of what Y calls; "T5Bias.B" of an amendment
  int value;
  const InitializerRow* start;
  std::vector<Node> args;
  bool fixed, per_stack;
};

// The statements that run a block of queries at a time: those over queries and memory, what lies
// between them, and what reads them. They are made of the rows of what they are given, so a block
// of rows needs the same rows only.
struct Tile {
  std::vector<int> inside = {};  // statements, in their order
  std::vector<int> given = {};   // values made before, which they read
  std::vector<int> exits = {};   // of `inside`: what is read after
  // Whether a block may leave out the memory that a causal mask hides from all of it.
  bool may_crop = false;
  // Why the program has none: with a caret where a statement is in the way, or "" for no statement
  // over queries and memory.
  std::string refusal = {};
  std::vector<Place> refused_at = {};
};

struct Checked {
  std::string name;  // of the def
  std::vector<std::shared_ptr<const Source>> sources;
  std::vector<Dimension> dimensions;
  std::vector<CheckedValue> values;  // in the order of evaluation
  std::vector<int> inputs;           // values
  std::vector<std::string> input_names;
  std::vector<CheckedParameter> parameters;
  std::vector<Condition> conditions;
  int result = -1;
  bool self_only = false;      // M is X under other names
  bool takes_mask = false;     // some statement takes the call's mask
  bool takes_padding = false;  // … or at least its padding: visible(m)
  // Why the program is not causal under a causal mask, as far as the text shows, or "".
  std::string leak;
  Tile tile;

  // The root def's dimension of this name ("Y.h": of the def that Y calls), or -1.
  int find_dimension(const std::string& name) const;
  int find_value(const std::string& name) const;
  // What callers call a value: an input or a parameter by its name, others as the text does.
  const std::string& name_of(int value) const;
  bool is_argument(int value) const;  // an input or a parameter
};

// Where defs that a text calls but does not hold come from: the catalogue.
struct Library {
  // The program that holds a def of this name, or null.
  std::function<std::shared_ptr<const Program>(const std::string& name)> find = {};
  std::vector<std::string> names = {};  // for suggestions
};

// The def that a text is about: the first that no other of its defs calls.
const Def& main_def(const Program& program);

// Checks a program and what amends it. Each def of an amending text that no other def of it calls
// amends the tensor that is named like its first argument: later statements see its result. Its
// further inputs are the program's tensors of those names; its parameters are the program's, named
// "Def.parameter". What the text itself gives stays visible as "Def.L".
// Throws Error (input) with a caret.
Checked check(const Program& program, const std::vector<Program>& amendments = {},
              const Library& library = {});

// Dimensions that are the memory in larger pieces: windows over it that are an axis of their own.
std::vector<int> memory_pieces(const Checked& program);

// The order in memory, outermost first, of a value with these dimensions (batch dimensions lie
// outside all of them). Positions in `names`.
//   both sequence axes:  the others, then n, m      each head's logits are a matrix
//   m, and two heads:    the heads, then m          each key has a matrix of its own
//   otherwise:           the sequence axis, or else the first; heads; the rest
// So projections are one matrix product, and products over heads need no copy. It changes no value.
Short<int> layout_of(const Names& names, const std::vector<Dimension>& dimensions);

}  // namespace tete
