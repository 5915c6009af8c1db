// The checker: writes a def out into a Draft, with the defs that it calls or that amend it in the
// places of the calls and amendments.
#pragma once
#include <deque>

#include "nn/language/check/reading.hpp"
#include "nn/language/check/slots.hpp"

namespace tete {

// The value that a call passes for an argument of a def, and its place; -1 if it passes none.
struct Argument {
  int value = -1;
  Place place = {};
  bool is_input = false;  // a program apart is given it in each run
};
using Arguments = std::vector<Argument>;  // in the def's order
// The arguments of a call of `def`, by place and by name.
Arguments read_arguments(Instance& in, const ExprText& call, const Def& def);
// How many of the call's arguments `def` takes: what fills a slot may leave the caller's parameters
// at their end (R22).
size_t taken_arguments(const Instance& in, const ExprText& call, const Def& def);
// Fails unless a value of so many dimensions can be passed for `arg`, which has `wanted`.
void check_passed(const ArgText& arg, int wanted, int given, Element element, const Place& place);

// A def that no other of an amending text calls: it changes the tensor named like its first
// argument (R11).
struct Amending {
  Callee def;
  bool applied = false;
  bool inherited = false;  // it amends a call around this one, if it finds its tensors here
  // The name of the tensor.
  const std::string& letter() const { return def.def->args[0].ref.word.name; }
};

constexpr int deepest_call = 100;

class Checker {
 public:
  Checker(const std::vector<Program>& amendments, const Library& library, Extent& extent);
  // The program of a def by itself; all of its arguments are inputs and parameters.
  Checked run(const Callee& callee, const Slots& slots);
  // The program of a call that `around` makes at `site`; what it passes is an input.
  Checked run(const Slots::Filler& target, Instance& around, const CallSite& site,
              const Arguments& arguments);

 private:
  Checked run(Instance& root, const Arguments& arguments);
  // The place of a call by the statement of this name.
  static CallSite site_of(const Instance& in, const std::string& statement);

  // definition.cpp. Writes a def out in the place of a call; returns the number of its result.
  int write_out(Instance& in, const Arguments& arguments, const Place& place);
  size_t taken_by_any(const Instance& in, const StatementText& s) const;
  std::set<std::string> left_parameters(const Instance& in) const;
  void define_arguments(Instance& in, const Arguments& arguments);
  void define_argument(Instance& in, const ArgText& arg, const Argument& passed);
  void statement(Instance& in, const StatementText& s);
  void loss_term(Instance& in, const StatementText& s, CheckedValue left);

  // call.cpp
  static void check_depth(const Instance& in, const Place& place);
  int call(Instance& in, const Callee& callee, const std::string& prefix,
           const Arguments& arguments, const Place& place, bool amends,
           const Slots::Filler& target = {}, const std::string& statement = "");
  void call_statement(Instance& in, const StatementText& s, const Slots::Filler& target,
                      const CheckedValue& left);

  // apart.cpp. A call that is a program of its own.
  Slots::Filler target_of(const Instance& in, const ExprText& e, const CallSite& site) const;
  // A call while it is checked, and its place: of a repeated one, some of its repetitions.
  struct Apart {
    Instance& in;
    const StatementText& s;
    CallSite site;
    Slots::Filler target = {};
    Arguments arguments = {};
    CheckedCall call = {};
  };
  void call_apart(Instance& in, const StatementText& s, CheckedValue left);
  void check_apart(Apart& a);
  // Adds the repetitions that differ from the others, as slots are filled in them.
  void add_others(const Apart& others, const Names& left, CheckedCall& call);
  std::vector<Program> amending(const Apart& a) const;
  void pass_apart(Apart& a);
  void pass_input(Apart& a, size_t number);
  // `other`: its number among CheckedCall::others, or -1.
  void return_apart(const Apart& a, const Names& left, int other);

  // amendment.cpp
  void add_amendments(const Program& program);
  void add_amendment(const Callee& def, bool inherited);
  // Those of a call around `in` that have not found all of their tensors there.
  void inherit(const Checker& outer, const Instance& in);
  // Marks those that `inner` inherited and applied.
  void take_applied(const Checker& inner);
  using Letters = std::set<std::string>;
  // The amended tensors that a def has, and with those of the defs that it calls.
  Letters letters_of(const Def& def) const;
  const Letters& letters_below(const Callee& callee, int depth);
  // Finds the amending texts that amend inside this call.
  void find_amended(Instance& in);
  bool is_amended_in(const Instance& in, const Program& amending);
  std::vector<Amending*> amendments_of(const Instance& in, const std::string& name);
  // Passes the value `name`, which has just been defined, through the defs that amend it.
  void amend(Instance& in, const std::string& name, const Place& place);
  void amend(Instance& in, const std::string& name, const Place& place, Amending& by);
  void amend_renamed(Instance& in, const ArgText& arg);
  void check_amendments_applied();

  Draft draft_;
  const Instance* root_ = nullptr;
  std::vector<Amending> amendments_;
  std::map<const Def*, std::pair<Callee, Letters>> letters_below_;
  std::deque<Instance> instances_;  // their addresses stay, as those of slots
  std::deque<Slots> slots_;
};

// The names of the defs of the program that another of its defs calls.
std::set<std::string> called_defs(const Program& program);

}  // namespace tete
