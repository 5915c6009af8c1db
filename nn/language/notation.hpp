// The notation: the text of a program, read into a tree. Nothing is checked here but the grammar.
//
//   program   := use* def+
//   use       := 'use' slot ('=' filler | 'with' Name, …)   what fills a slot, or amends it there
//   slot      := [Name '.' …] Name ['[' number, … ']']       decoder.Attention[3]
//   filler    := Name ['with' Name, …] ['start' init '(' … ')'] | 'none'
//   def       := 'def' Name '(' arg, … ')' ':' ['where' dim '=' expr, …] statement* 'return' ref
//   arg       := Name '[' axis, … ']' [ '=' ['fixed'] init '(' … ')' ['per' 'stack']   a parameter
//                                     | '=' ref            that input under other names
//                                     | '<' dim ]          an integer input, 0 … dim-1
//   statement := Name '[' axis, … ']' '=' (expr | call) | 'loss' Name '[' ']' '=' expr
//   call      := Name '(' expr, … ')' ['with' Name, …] ['repeated' dim ['tied']]
//   axis      := ['causal'] dim | dim '<=' dim | dim '=' '(' dim … ')' | integer
//   expr      := or | and | not | < <= > >= == != | + - | * / // % | unary - | ^ | primary
//   primary   := number | dim | 'causal' | 'layer' | ref | '(' expr ')' | function
//   function  := Name '(' expr, …, key=… ')'
//
// A line goes on inside ( [ and after a comma; '#' starts a comment. Every mistake is an Error
// (input) of one sentence with file:line:column, the line, and a caret under the place.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.hpp"

namespace tete {

// A text with the name that errors call it by.
struct Source {
  std::string name;
  std::string text;
};

// A part of a text. The Program, and all that is made from it, keeps the Source alive.
struct Place {
  const Source* source = nullptr;
  uint32_t at = 0, length = 1;
};

// "file:line:column: sentence", then every line that `places` touch, with carets under them. Line
// and column are those of the first place.
std::string point_out(const std::string& sentence, const std::vector<Place>& places);
// Throws the same as an Error (input); the sentence is all parts, one after the other.
template <class... Parts>
[[noreturn]] void fail_at(const std::vector<Place>& places, const Parts&... parts) {
  throw Error(ErrorKind::input, point_out(text(parts...), places));
}
// "file:line".
std::string line_of(const Place& place);

struct Word {
  std::string name;
  Place place;
};

// One entry between the brackets of a tensor.
struct AxisText {
  Word word;                     // the dimension; empty for a pick
  Word bound = {};               // n<=max_n
  std::vector<Word> parts = {};  // h=(g s)
  Index pick = -1;               // an element's number
  bool causal = false;           // rows see only what comes before them
};

struct RefText {
  Word word;
  std::vector<AxisText> axes;
  Place whole;  // from the name to the closing bracket
};

// The tensor as a text has it, on one line.
std::string written(const RefText& ref);

enum class Operator : uint8_t {
  either,
  both,
  negation,  // or, and, not
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  unequal,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,  // + - * / // %
  minus,
  power,  // unary -, ^
};
const char* symbol(Operator op);

enum class ExprKind : uint8_t { number, dim, causal, layer, ref, call, operation, group };

struct ExprText {
  ExprKind kind = ExprKind::number;
  Place place;  // of the operator, the name or the number
  double number = 0;
  bool whole = false;  // the number is written without '.' and exponent
  Word word = {};      // dim, call: the name
  RefText ref = {};
  Operator op = Operator::add;
  std::vector<ExprText> args = {};  // of a call or an operation
  std::vector<ExprText> keys = {};  // of a call: its arguments with a name
  Word key = {};                    // of such an argument: the name
  std::vector<Word> group = {};     // into=(o w)
  int depth = 1;
};

enum class ArgKind : uint8_t { input, integer, renamed, parameter };

struct ArgText {
  ArgKind kind = ArgKind::input;
  RefText ref;
  Word below = {};       // integer: its values are 0 … below-1
  RefText same_as = {};  // renamed
  ExprText init = {};    // parameter: a call
  bool fixed = false, per_stack = false;
};

struct WhereText {
  Word word;
  ExprText value;
};

struct StatementText {
  RefText left;
  ExprText right;
  // A call has texts that amend it, a number of repetitions, and says whether these share their
  // parameters.
  std::vector<Word> with = {};
  Word repeated = {};
  bool tied = false;
  bool is_loss = false;  // a further term of the loss

  bool is_apart() const { return !with.empty() || !repeated.name.empty(); }
};

struct Def {
  Word word;
  std::vector<ArgText> args;
  std::vector<WhereText> where;
  std::vector<StatementText> statements;
  RefText result;
};

// The number of a repetition.
struct NumberText {
  Index value;
  Place place;
};

// A slot, the place where it is filled, and what fills it there.
struct UseText {
  std::vector<Word> path = {};  // statements whose calls lead to that of the slot
  Word slot;
  std::vector<NumberText> numbers = {};  // of the repetitions that it is about; none: all
  // A def of the file, a text of the catalogue, another slot, or "none"; empty: `with` comes to
  // whatever fills the slot.
  Word filler;
  std::vector<Word> with = {};
  ExprText start = {};  // a call, if it is given
};

// The place as a text has it: "decoder.Attention[3]".
std::string written(const UseText& use);
// Its filling on the rest of the line: "multi_head with biases start normal(0.02)".
std::string filling_of(const UseText& use);

struct Program {
  std::shared_ptr<const Source> source;
  std::vector<UseText> uses = {};
  std::vector<Def> defs = {};  // main_def (check.hpp) finds the one that the text is about

  // Reads a text of at most 1 MB. Errors call it `name`, usually the file's path.
  static Program parse(std::string_view text, std::string name = "text");
  // Reads what a caller says about slots, a line each, without the word `use`: a program that has
  // no def.
  static Program parse_uses(std::string_view text, std::string name);
  const Def* find(std::string_view name) const;
};

}  // namespace tete
