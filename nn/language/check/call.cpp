// Calls of other defs (R10): passes their arguments and takes their results.
#include <algorithm>

#include "nn/language/check/checker.hpp"

namespace tete {

Callee find_callee(const ExprText& e, const std::shared_ptr<const Program>& program,
                   const Library& library) {
  if (e.kind != ExprKind::call || find_builtin(e.word.name)) return {};
  if (const Def* found = program->find(e.word.name)) return {found, program};
  if (!library.find) return {};
  const std::shared_ptr<const Program> other = library.find(e.word.name);
  return other ? Callee{other->find(e.word.name), other} : Callee{};
}

namespace {

size_t place_of(const Word& key, const Def& def) {
  std::vector<std::string> names;
  for (const ArgText& arg : def.args) names.push_back(arg.ref.word.name);
  const auto at = std::find(names.begin(), names.end(), key.name);
  if (at == names.end())
    fail_at({key.place}, "'", def.word.name, "' has no argument '", key.name, "'",
            suggestion(key.name, names));
  return static_cast<size_t>(at - names.begin());
}

[[noreturn]] void refuse_another(const ExprText& call, const Def& def, const ArgText& arg,
                                 const Place& passed) {
  const bool is_slot = call.word.name != def.word.name;
  fail_at({passed, arg.ref.whole}, "'", def.word.name, "' reads its own sequence only: its '",
          arg.ref.word.name, "' is '", arg.same_as.word.name,
          "', and another tensor cannot be passed",
          is_slot ? text("; fill '", call.word.name, "' with a text that takes one") : "");
}

}  // namespace

size_t taken_arguments(const Instance& in, const ExprText& call, const Def& def) {
  size_t taken = call.args.size();
  if (!in.slots->contains(call.word.name)) return taken;
  const auto is_parameter = [&](const ExprText& e) {
    return std::any_of(in.def.args.begin(), in.def.args.end(), [&](const ArgText& arg) {
      return arg.kind == ArgKind::parameter && e.kind == ExprKind::ref &&
             arg.ref.word.name == e.ref.word.name;
    });
  };
  while (taken > def.args.size() && is_parameter(call.args[taken - 1])) --taken;
  return taken;
}

Arguments read_arguments(Instance& in, const ExprText& call, const Def& def) {
  const size_t taken = taken_arguments(in, call, def);
  if (taken > def.args.size())
    fail_at({call.args[def.args.size()].place, def.word.place}, "'", def.word.name, "' takes ",
            counted(std::ssize(def.args), "argument"), ", got ", call.args.size());
  Arguments arguments(def.args.size(), Argument{-1, call.place});
  const auto pass = [&](size_t at, const ExprText& value) {
    const ArgText& arg = def.args[at];
    if (value.kind != ExprKind::ref)
      fail_at({value.place}, "the arguments of '", def.word.name, "' are tensors with ",
              "their dimensions; give this a name first");
    if (arguments[at].value >= 0)
      fail_at({value.place}, "'", arg.ref.word.name, "' is passed twice");
    const int passed = in.resolve_plain(value.ref, "an argument");
    if (arg.kind != ArgKind::renamed) arguments[at] = {passed, value.place};
    else if (arguments[place_of(arg.same_as.word, def)].value != passed)  // R20
      refuse_another(call, def, arg, value.place);
  };
  for (size_t i = 0; i < taken; ++i) pass(i, call.args[i]);
  for (const ExprText& key : call.keys) pass(place_of(key.key, def), key);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ArgText& arg = def.args[i];
    if (arguments[i].value < 0 && (arg.kind == ArgKind::input || arg.kind == ArgKind::integer))
      fail_at({call.word.place, arg.ref.whole}, "'", def.word.name, "' needs its input '",
              arg.ref.word.name, "'");
  }
  return arguments;
}

void check_passed(const ArgText& arg, int wanted, int given, Element element, const Place& place) {
  if (given != wanted)
    fail_at({place, arg.ref.whole}, "'", arg.ref.word.name, "' has ", counted(wanted, "dimension"),
            ", but ", given, " are passed");
  if (arg.kind == ArgKind::integer && element != Element::whole)
    fail_at({place, arg.ref.whole}, "'", arg.ref.word.name, "' holds whole numbers, but ",
            describe(element), " are passed");
}

void Checker::check_depth(const Instance& in, const Place& place) {
  if (in.depth == deepest_call)
    fail_at({place}, "calls of defs nest at most ", deepest_call, " deep, this one is one more");
}

int Checker::call(Instance& in, const Callee& callee, const std::string& prefix,
                  const Arguments& arguments, const Place& place, bool amends,
                  const Slots::Filler& target, const std::string& statement) {
  check_depth(in, place);
  Instance& inner = instances_.emplace_back(Instance{draft_, *callee.def, callee.program, prefix,
                                                     &in, &in, in.depth + 1, amends || in.amends});
  inner.called_by = statement, inner.turn = in.turn;
  const CallSite site = site_of(in, statement);
  inner.slots = callee.program == in.program
                    ? in.slots
                    : &slots_.emplace_back(callee.program, site, *in.slots);
  inner.fills = target.is_slot;
  inner.start = target.start ? target.start : in.start;
  std::vector<std::shared_ptr<const Source>>& sources = draft_.program.sources;
  if (std::find(sources.begin(), sources.end(), callee.program->source) == sources.end())
    sources.push_back(callee.program->source);
  find_amended(inner);
  return write_out(inner, arguments, place);
}

void Checker::call_statement(Instance& in, const StatementText& s, const Slots::Filler& target,
                             const CheckedValue& left) {
  const Callee& callee = target.callee;
  const Arguments arguments = read_arguments(in, s.right, *callee.def);
  const int result =
      call(in, callee, left.name + ".", arguments, s.right.place, false, target, s.left.word.name);
  const Names dims = draft_.value(result).dims;
  if (dims.size() != left.dims.size())
    fail_at({s.left.whole, callee.def->result.whole}, "'", callee.def->word.name, "' returns ",
            counted(dims.size(), "dimension"), ", but the left has ", left.dims.size());
  for (int i = 0; i < dims.size(); ++i)
    draft_.take_result(left.dims[i], dims[i], s.left.axes[i].word.place);
  const int named = draft_.renamed(result, left.name, left.place, left.dims);
  if (target.is_slot) draft_.program.values[named].slot = s.right.word.name;
  in.define(s.left.word, named);
}

}  // namespace tete
