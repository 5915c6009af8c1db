// A program while it is being checked, and the meaning of one def's names in it.
#pragma once
#include <map>
#include <set>

#include "nn/language/check.hpp"

namespace tete {

inline constexpr int most_dims = 12;  // of one tensor; the rest of max_rank is for the batch

// The size of one text with the defs that it calls written out. All work on a program is in
// proportion to it, so limits on it bound the work.
struct Extent {
  size_t values = 0, dimensions = 0, parts = 0;
};

class Slots;
struct Turn;

// The part of a program that is checked so far.
struct Draft {
  const Library& library;
  Extent& extent;
  Checked program = {};

  Dimension& dim(int i) { return program.dimensions[i]; }
  const Dimension& dim(int i) const { return program.dimensions[i]; }
  CheckedValue& value(int i) { return program.values[i]; }
  int add(CheckedValue value);
  int add(Dimension dimension);
  // Counts one more tensor, number or operation of an expression; fails past the limit.
  void count_part(const Place& place);
  // Adds `value` under another name, with its dimensions called `dims`, in the same order.
  int renamed(int value, const std::string& name, const Place& place, const Names& dims);
  // Gives `to` the size and role of `from`, which a call passes or returns for it.
  void take_argument(int to, int from, const Place& place) {
    take(to, from, &Dimension::arguments, place);
  }
  void take_result(int to, int from, const Place& place) {
    take(to, from, &Dimension::results, place);
  }
  // `part` is another name of the positions of `whole`: an axis of the same sequence, as memory.
  void take_sequence(int part, int whole, const Place& place);

 private:
  void take(int to, int from, std::vector<Dimension::Equal> Dimension::*as, const Place& place);
};

// A def and the program that holds it.
struct Callee {
  const Def* def = nullptr;
  std::shared_ptr<const Program> program = {};
};

// The def that an expression calls, of `program` or of the library; none if it calls none.
Callee find_callee(const ExprText& e, const std::shared_ptr<const Program>& program,
                   const Library& library);

// A def, written out in the place of one call of it: its names, and what they mean there.
struct Instance {
  Draft& draft;
  const Def& def;
  std::shared_ptr<const Program> program;
  std::string prefix;               // of its names in the draft: "" or "Y."
  Instance* caller = nullptr;       // in this draft
  Instance* around = nullptr;       // the def whose call leads here, in this draft or another
  int depth = 0;                    // of the calls that lead here
  bool amends = false;              // it is an amendment: no amendment applies inside it
  bool fills = false;               // it fills a slot
  std::string called_by = {};       // the statement that calls it, if one does
  Turn* turn = nullptr;             // of the innermost repetition around it
  bool has_slots = false;           // it, or a def that it calls, calls a slot
  const Slots* slots = nullptr;     // of its text
  const ExprText* start = nullptr;  // how the parameters of its slot start, if `use` says so
  // By amending text: the call inside which it amends, this one or one around it.
  std::map<const Program*, const Instance*> amended_in = {};

  std::map<std::string, int> dims = {};
  std::map<std::string, int> values = {};
  std::map<std::string, Place> written = {};  // where a value of this def's own text is defined
  std::set<std::string> mentioned = {};       // dims in annotations and expressions
  std::set<std::string> used = {};            // values
  std::set<std::string> left = {};            // parameters that it offers to slots, and none takes
  // The parameters that no call passes: their arguments, and their numbers in the draft.
  std::vector<std::pair<const ArgText*, int>> parameters = {};

  // Dimensions (dimension.cpp).
  int declare(const std::string& dim, const Place& place);
  // Declares every dimension that the def writes in an annotation or in `where`.
  void declare_dimensions();
  int dimension(const Word& word);
  // A dimension that neither the call nor a default decides becomes the calling def's dimension of
  // the same name.
  void open_dimensions();
  // The dimensions for which neither an argument, a default nor a merge decides.
  std::vector<int> undecided() const;
  // The dimension of this name, or of the callers, which then must say how large it is.
  int outer_dimension(const std::string& name, const Place& place);
  // The dimensions of a tensor where it is defined. `bounds`, for a parameter, receives the largest
  // length of each, or -1.
  Names defined_dims(const RefText& ref, Names* bounds = nullptr);
  bool has_as_argument(const std::string& dim) const;
  std::string own_name(int dim) const { return draft.dim(dim).name.substr(prefix.size()); }
  // The place at which a use of a tensor names `dim`.
  Place place_of(const RefText& ref, int dim) const;

  // Tensors (value.cpp).
  void check_new_name(const Word& word) const;
  void define(const Word& word, int value);
  // R1: a use repeats the names of the definition in their order, or splits one by name=(a b).
  Node resolve(const RefText& ref);
  // The value of a use that must be written as it was defined: the result or an argument. `what`
  // is its name in the error.
  int resolve_plain(const RefText& ref, const char* what);

  // The def that an expression calls (find_callee).
  Callee callee(const ExprText& e) const { return find_callee(e, program, draft.library); }

 private:
  int find_value(const Word& word);
  void resolve_axis(const RefText& ref, int i, Node& node);
  void check_axis_name(const RefText& ref, int i, int value) const;
};

void refuse_many(const RefText& ref);
void refuse_twice(const RefText& ref, const Word& word, bool twice);

std::vector<std::string> keys_of(const auto& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

}  // namespace tete
