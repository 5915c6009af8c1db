// The checker: a tree becomes statements whose names are resolved, or an error with a caret.
//
// Everything that can be known without sizes is decided here: the meaning of every name, the names
// of every expression, the kind of its elements, the softmaxes that take the call's mask. Calls of
// other defs are written out in place: a tensor Q of the def called by statement Y becomes "Y.Q",
// and its dimensions are dimensions of their own that take their sizes from the call.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/flow.hpp"
#include "nn/language/builtins.hpp"
#include "nn/language/notation.hpp"
#include "nn/tile.hpp"

namespace tete {

// size: that of a dimension; causal: 1 under a causal mask; layer: the number of the innermost
// repetition, 0 outside; value: a use of a tensor
enum class NodeKind : uint8_t { number, size, causal, layer, value, operation, call };

// An expression with its names resolved.
struct Node {
  struct RefAxis {
    Index pick = -1;   // the picked element, or -1 if all are used
    Names parts = {};  // the parts that the dimension is split into (or itself)
  };
  struct Key {
    Place place = {};
    int dim = -1;                  // reduced_dim=m
    Names dims = {};               // into=(o w)
    std::vector<Node> value = {};  // mask=V[n, m], stride=2: empty if the key is not given
  };
  NodeKind kind = NodeKind::number;
  Place place;
  double number = 0;
  int index = -1;                  // size: the dimension; value: the value
  bool plain = true;               // value: with the dimensions that it was defined with
  std::vector<RefAxis> axes = {};  // value, if not plain
  Operator op = Operator::add;
  const Builtin* builtin = nullptr;
  bool takes_call_mask = false;  // call: the mask of the call is ANDed with mask=
  bool reads_ahead = false;      // windows(): places to the right of a row would read the future
  std::vector<Node> args = {};
  std::vector<Key> keys = {};  // call: one for each key row of its builtin, given or not
  Names names = {};            // of the result
  Element element = Element::real;
  bool constant = true;  // true: a number that follows from sizes; it has no names
  int fusion = -1;       // the one that computes it (Checked::fusions)
  int strips = -1;       // of the memory, if it is their sum (Checked::strips)

  // The special dimension of a call, which its first key names, or -1.
  int dim() const { return keys.empty() ? -1 : keys[0].dim; }
};

// True if the node is a call of this builtin.
inline bool calls(const Node& node, std::string_view builtin) {
  return node.builtin && node.builtin->name == builtin;
}

// Calls `see` with `node` and then with every node below it.
template <class See>
void visit(const Node& node, const See& see) {
  see(node);
  for (const Node& arg : node.args) visit(arg, see);
  for (const Node::Key& key : node.keys)
    for (const Node& value : key.value) visit(value, see);
}

struct FusionRow;
struct FusedAttention;

// An expression that one kernel of core computes (nn/run/fusion.cpp).
struct Fusion {
  const FusionRow* row;
  std::vector<Node> operands = {};
  // Statements that it computes on the way, as nothing else reads them; unless a hook asks for one.
  std::vector<int> inside = {};
  std::shared_ptr<const FusedAttention> attention = {};  // its operands and their names
};

// The first `layer` in it, or null.
const Node* layer_in(const Node& node);

struct Dimension {
  std::string name;  // as errors and callers call it: "d_k", "Y.d_k"
  // The name in its own def's text: "d_k" for "Y.d_k".
  std::string short_name() const { return name.substr(name.rfind('.') + 1); }
  Place place;  // where it is first written
  Role role = Role::none;
  // The input whose sequence it is of: query for X's, memory for M's. M may be X, and earlier
  // queries may be memory: n=(l).
  Role sequence = Role::none;
  bool head = false;  // true: a batch axis of some einsum, but no sequence
  // The sources of its size if the caller does not set it, in the order in which they are tried.
  struct Equal {
    int dim;
    Place place;
  };
  std::vector<Equal> arguments = {};  // dimensions that a call passes for it
  std::vector<Node> fallback = {};    // `where`, none or one
  Place fallback_place = {};
  Names product = {};               // merged on the left of a statement
  int call = -1, inner = -1;        // a call (Checked::calls) that returns it, and its name there
  int outer = -1;                   // the calling def's dimension of the same name
  std::vector<Equal> results = {};  // dimensions that a call returns for it
};

// The axes of queries and of memory, among `names`, whose pairs the mask of the call hides (R18).
// `dim` is one of them; both are -1 if the mask hides none.
struct AxisPair {
  int query = -1, memory = -1;
};
AxisPair masked_pair(const Names& names, int dim, const std::vector<Dimension>& dimensions);
// True if a causal mask hides later memory in such pairs: both are X's, if M is another sequence.
bool is_causal_pair(const AxisPair& axes, const std::vector<Dimension>& dimensions, bool apart);

enum class ConditionKind : uint8_t { equal, product, room, total, element, returned };

// A condition that the sizes of a run must satisfy.
struct Condition {
  ConditionKind kind;
  int dim;
  Names others = {};  // equal: one; product, total: the parts; room: the largest length
  Index pick = 0;     // element: its number; returned: the call's
  Place place = {};
  int inner = -1;  // returned: the dimension in the call's program
  int other = -1;  // returned: which of CheckedCall::others it is, or -1
};

// Windows over the axis `of`: `count` counts them, `place` the positions in one.
struct Windows {
  int of, count, place;
  std::vector<Node> left = {}, right = {}, stride = {};  // numbers; none: 0, 0 and 1
};

enum class ValueKind : uint8_t { input, parameter, same, statement, call };

struct CheckedValue {
  std::string name;  // "L", "Y.L"
  ValueKind kind = ValueKind::statement;
  Place place = {};                     // its name and dimensions, where it is defined
  std::vector<Place> axis_places = {};  // input, parameter
  Names dims = {};
  Names bounds = {};  // parameter: the largest length of each dimension, or -1
  Element element = Element::real;
  int index = -1;                  // input, parameter, call: its number; same: the other value
  Names names = {};                // statement: dims before they are merged
  Node right = {};                 // statement
  int below = -1;                  // integer input: values are 0 … size of this dimension - 1
  bool watched = true;             // true: hooks are offered it
  bool for_loss = false;           // true: a term of the loss, or a value that only these need
  int strips = -1;                 // those whose sum reads it, if only such sums do
  std::string slot = {};           // the slot whose filler makes it: "Attention"; else ""
  Short<int> layout = {};          // order in memory of `names` (or dims), outermost first
  std::vector<int> uses = {};      // values that it reads, once for each use
  std::vector<int> finished = {};  // values whose last reader is this one
  int fusion = -1;                 // that computes it on the way, inside another statement
  int norm = -1;                   // the fusion that is its norm, computed with it: it is a sum
};

struct CheckedParameter {
  std::string name;  // "P_q"; "Y.P_q" of the def that Y calls; "T5Bias.B" of an amendment
  int value;
  const InitializerRow* start;
  std::vector<Node> args;
  bool fixed, per_stack;
};

struct Checked;
struct Pairwise;

// A call that runs as a program of its own: a slot's filler that attends to a memory, an amended
// call, or one that is repeated (R22 to R24).
struct CheckedCall {
  std::shared_ptr<const Checked> program;
  Place place = {};
  struct Passed {
    int value;
    int row = -1;  // the position of `repeated` among the value's dimensions: each repetition gets
                   // a row
  };
  std::vector<Passed> passed = {};  // by the program's inputs
  // A size of the program that is one of the caller: that of an argument, or else an open one of
  // the same name.
  struct Size {
    int inner, outer;
    bool is_argument;
  };
  std::vector<Size> sizes = {};
  int queries = -1, memory = -1;  // the caller's axes that are passed as those of X and M, or -1
  int repeated = -1;              // the dimension that counts repetitions
  bool tied = false;              // all repetitions have one set of parameters
  bool keeps = false;             // the result has the state after each repetition
  // Repetitions in which slots are filled otherwise, and their numbers.
  std::vector<NumberText> numbers = {};
  std::vector<CheckedCall> others = {};

  const CheckedCall& at(Index repetition) const;
};

// Calls `see` with the call, and with those of its repetitions that differ.
template <class See>
void visit(const CheckedCall& call, const See& see) {
  see(call);
  for (const CheckedCall& other : call.others) see(other);
}

struct Checked {
  std::string name;  // of the def
  std::vector<std::shared_ptr<const Source>> sources;
  std::vector<std::shared_ptr<const Source>> uses;  // the caller's, which errors point at
  std::vector<Dimension> dimensions;
  std::vector<CheckedValue> values;  // in the order of evaluation
  std::vector<int> inputs;           // values
  std::vector<std::string> input_names;
  std::vector<CheckedParameter> parameters;
  std::vector<Condition> conditions;
  std::vector<Windows> windows;  // those that have an axis of their own
  std::vector<CheckedCall> calls;
  std::vector<Fusion> fusions;
  std::vector<int> losses;  // values that are terms of the loss (R25): one number a sample
  std::vector<int> open;  // of a call apart: the sizes that follow from the caller's, if they must
  bool causal = false;    // the text marks X's sequence as causal
  int result = -1;
  bool self_only = false;      // M is X under other names
  bool takes_mask = false;     // some statement takes the call's mask
  bool takes_padding = false;  // … or at least its padding: visible(m)
  // An error sentence if the text shows that the program reads what a causal mask hides, or how
  // long the sequence is; else "".
  std::string leak;
  Flow flow;
  std::vector<Strips> strips;
  Tile tile;
  std::shared_ptr<Pairwise> pairwise;  // if it has a tile, and einsums of many operands

  // The root def's dimension of this name ("Y.h": of the def that Y calls), or -1.
  int find_dimension(const std::string& name) const;
  int find_value(const std::string& name) const;
  // The name by which callers know a value. An amendment renames an input's value, but not this.
  const std::string& name_of(int value) const;
  bool is_argument(int value) const;  // an input or a parameter
  bool is_loss(int value) const;      // a term of the loss
  // True if it has terms of the loss, or the programs of its calls have.
  bool has_losses() const;
  // True if an input is called M.
  bool has_memory() const;
  // True if X's sequence is marked as causal and M is another one.
  bool is_apart() const;
  // True if one of these dimensions is an axis of this sequence or counts windows over it.
  bool is_over(const Names& dims, Role role) const;
};

// Calls `see` with the program of each of its calls, and of their repetitions that differ.
template <class See>
void visit_called(const Checked& program, const See& see) {
  for (const CheckedCall& all : program.calls)
    visit(all, [&](const CheckedCall& call) { see(*call.program); });
}

// The catalogue: finds the defs that a text calls but does not contain.
struct Library {
  using Find = std::function<std::shared_ptr<const Program>(const std::string& name)>;
  Find find = {};                       // the program that holds a def of this name, or null
  std::vector<std::string> names = {};  // of defs, for suggestions
  std::vector<std::string> texts = {};  // of texts, likewise
  // The text of this name, and the amending text, or null.
  Find text = {}, amendment = {};
};

// The def that a text is about: the first that no other of its defs calls.
const Def& main_def(const Program& program);

// Checks a program with its amendments. Each def of an amending text that no other def of it calls
// amends the tensor that is named like its first argument: later statements read its result. Its
// further inputs are the program's tensors of those names; its parameters are the program's, named
// "Def.parameter". The tensor before the amendment is named "Def.L".
// `uses` (Program::parse_uses) fill the text's slots before its own do (R22); their fillers are
// texts of the library, or defs of the program.
// Throws Error (input) with a caret.
Checked check(const Program& program, const std::vector<Program>& amendments = {},
              const Library& library = {}, const std::vector<Program>& uses = {});

// Facts that follow from a program's statements: fills in Dimension::head, CheckedValue::layout,
// ::uses, ::finished and ::for_loss, Checked::flow, ::leak (leak.cpp), ::strips, ::tile, ::fusions
// and ::pairwise, once, of a program that has none of them (analysis.cpp).
void analyse(Checked& program);

// A call inside a run whose sequence of X is causal, or not: `causal` and `apart` of the call's own
// mask (Mask, nn/run.hpp). `apart`: X and M of the run are two sequences.
struct CallSequences {
  bool causal, apart;
};
CallSequences sequences_of(const Checked& program, const CheckedCall& call, bool causal,
                           bool apart);

// An error sentence if the program reads what a causal mask hides, or how long the sequence is;
// else "". `apart`: M is of another sequence than X, all of which may be seen.
std::string leak_of(const Checked& program, bool apart);

// An error sentence about what the program combines, with a caret.
std::string sentence(const Checked& program, const Combination& combination);

// Finds what runs in one pass. All else in `program` must be filled in.
void find_fusions(Checked& program);
// Keeps a program before its analysis, for pairwise() of nn/run/pairwise.hpp; null if no einsum has
// more than two operands.
std::shared_ptr<Pairwise> find_pairwise(const Checked& program);

// The memory order of a value with these dimensions, as positions in `names`, outermost first.
// Batch dimensions are outside all of them.
//   both sequence axes:  the others, then n, m      each head's logits are a matrix
//   m, and two heads:    the heads, then m          each key has a matrix of its own
//   otherwise:           the sequence axis, or else the first; heads; the rest
// So projections are one matrix product, and products over heads need no copy. It changes no value.
Short<int> layout_of(const Names& names, const std::vector<Dimension>& dimensions);

}  // namespace tete
