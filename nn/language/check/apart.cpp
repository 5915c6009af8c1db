// Calls that run as programs of their own (R22 to R24): their sizes, arguments and results.
#include "nn/language/check/checker.hpp"

namespace tete {

CallSite Checker::site_of(const Instance& in, const std::string& statement) {
  CallSite site{{}, in.turn};
  for (const Instance* at = &in; at; at = at->around)
    if (!at->called_by.empty()) site.path.insert(site.path.begin(), at->called_by);
  if (!statement.empty()) site.path.push_back(statement);
  return site;
}

Slots::Filler Checker::target_of(const Instance& in, const ExprText& e,
                                 const CallSite& site) const {
  if (e.kind == ExprKind::call && in.slots->contains(e.word.name))
    return in.slots->filler(e.word, site, draft_.library);
  return {in.callee(e)};
}

// The texts that amend the call: those of its slot, then those of the statement, then those that
// come to them.
std::vector<Program> Checker::amending(const Apart& a) const {
  std::vector<Program> texts;
  for (const std::vector<Word>* names : {&a.target.with, &a.s.with, &a.target.after})
    for (const Word& name : *names)
      if (const auto found = a.in.slots->amendment(name, a.site, draft_.library))
        texts.push_back(*found);
  return texts;
}

void Checker::check_apart(Apart& a) {
  a.target = target_of(a.in, a.s.right, a.site);
  a.arguments = read_arguments(a.in, a.s.right, *a.target.callee.def);
  a.call.place = a.s.right.place;
  if (!a.s.repeated.name.empty()) a.call.repeated = a.in.dimension(a.s.repeated);
  a.call.tied = a.s.tied;
  Checker inner(amending(a), draft_.library, draft_.extent);
  inner.inherit(*this, a.in);
  a.call.program = std::make_shared<const Checked>(inner.run(a.target, a.in, a.site, a.arguments));
  take_applied(inner);
}

void Checker::call_apart(Instance& in, const StatementText& s, CheckedValue left) {
  check_depth(in, s.right.place);
  const bool is_repeated = !s.repeated.name.empty();
  Apart first{in, s, site_of(in, s.left.word.name)};
  Turn rest{.depth = first.site.path.size() - 1, .tied = s.tied};
  if (is_repeated) first.site.turn = &rest;
  check_apart(first);
  pass_apart(first);
  CheckedCall& call = first.call;
  Names dims = left.dims;
  if (is_repeated && dims.contains(call.repeated)) {
    if (dims[0] != call.repeated)
      fail_at({left.place}, "'", s.repeated.name, "' counts the repetitions; it is the first ",
              "dimension of what keeps them");
    call.keeps = true;
    dims.erase(0);
  }
  return_apart(first, dims, -1);
  if (is_repeated) add_others(first, dims, call);
  left.kind = ValueKind::call;
  if (first.target.is_slot) left.slot = s.right.word.name;
  left.index = static_cast<int>(draft_.program.calls.size());
  draft_.program.calls.push_back(std::move(call));
  in.define(s.left.word, draft_.add(std::move(left)));
}

void Checker::add_others(const Apart& others, const Names& left, CheckedCall& call) {
  for (const std::vector<NumberText>& numbers : others.in.slots->numbered()) {
    Apart a{others.in, others.s, others.site};
    Turn turn{.number = numbers[0].value, .depth = others.site.turn->depth, .tied = call.tied};
    a.site.turn = &turn;
    check_apart(a);
    if (!turn.decides) continue;
    if (call.tied)
      fail_at({numbers[0].place, others.s.repeated.place},
              "repetitions that are tied are one, so none of them has a filling of its own");
    pass_apart(a);
    a.call.keeps = call.keeps;
    a.call.numbers = numbers;
    return_apart(a, left, static_cast<int>(call.others.size()));
    call.others.push_back(std::move(a.call));
  }
}

void Checker::pass_apart(Apart& a) {
  CheckedCall& call = a.call;
  const Checked& program = *call.program;
  draft_.program.takes_mask |= program.takes_mask;
  draft_.program.takes_padding |= program.takes_padding;
  for (size_t i = 0; i < program.inputs.size(); ++i) pass_input(a, i);
  for (int open : program.open) {
    const bool is_passed = std::any_of(
        call.sizes.begin(), call.sizes.end(),
        [&](const CheckedCall::Size& size) { return size.is_argument && size.inner == open; });
    if (is_passed) continue;
    const Dimension& d = program.dimensions[open];
    call.sizes.push_back({open, a.in.outer_dimension(d.name, d.place), false});
  }
}

void Checker::pass_input(Apart& a, size_t number) {
  CheckedCall& call = a.call;
  const Checked& program = *call.program;
  size_t at = 0;
  while (a.target.callee.def->args[at].ref.word.name != program.input_names[number]) ++at;
  const ArgText& arg = a.target.callee.def->args[at];
  const Argument& argument = a.arguments[at];
  const Names& wanted = program.values[program.inputs[number]].dims;
  const CheckedValue& given = draft_.value(argument.value);
  CheckedCall::Passed passed{argument.value};
  Names dims;
  for (int k = 0; k < given.dims.size(); ++k)
    if (given.dims[k] == call.repeated) passed.row = k;
    else dims.push_back(given.dims[k]);
  check_passed(arg, wanted.size(), dims.size(), given.element, argument.place);
  for (int k = 0; k < dims.size(); ++k) {
    if (draft_.dim(dims[k]).role != Role::none && program.dimensions[wanted[k]].role == Role::none)
      fail_at({argument.place, arg.ref.whole}, "'", draft_.dim(dims[k]).name,
              "' is a sequence, and '", program.name,
              "', which is repeated, amended or fills a slot, takes sequences as X and M; '",
              arg.ref.word.name, "' has an axis of neither");
    call.sizes.push_back({wanted[k], dims[k], true});
  }
  if (arg.ref.word.name == "X" && !dims.empty()) call.queries = dims[0];
  if (arg.ref.word.name == "M" && !dims.empty()) call.memory = dims[0];
  call.passed.push_back(passed);
}

void Checker::return_apart(const Apart& a, const Names& left, int other) {
  const CheckedCall& call = a.call;
  const Def& def = *a.target.callee.def;
  const Place& place = a.s.left.whole;
  const Checked& program = *call.program;
  const Names& result = program.values[program.result].dims;
  if (result.size() != left.size())
    fail_at({place, def.result.whole}, "'", def.word.name, "' returns ",
            counted(result.size(), "dimension"), ", but the left has ", left.size());
  if (call.repeated >= 0) {
    const bool goes_in = !call.passed.empty() && call.passed[0].row < 0 &&
                         program.values[program.inputs[0]].dims.size() == result.size();
    if (!goes_in)
      fail_at({call.place, def.result.whole}, "what '", def.word.name,
              "' returns goes in again as its first argument, so it ",
              "has the dimensions of that");
  }
  for (int k = 0; k < result.size(); ++k) {
    const auto same = std::find_if(
        call.sizes.begin(), call.sizes.end(),
        [&](const CheckedCall::Size& size) { return size.is_argument && size.inner == result[k]; });
    if (same != call.sizes.end()) draft_.take_result(left[k], same->outer, place);
    if (call.repeated >= 0) draft_.take_result(left[k], call.sizes[k].outer, place);
    const auto number = static_cast<int>(draft_.program.calls.size());
    const bool is_passed = same != call.sizes.end() && same->outer == left[k];
    if (other < 0 && !is_passed)
      draft_.dim(left[k]).call = number, draft_.dim(left[k]).inner = result[k];
    draft_.program.conditions.push_back(
        {ConditionKind::returned, left[k], {}, number, place, result[k], other});
  }
}

}  // namespace tete
