// Calls that run as programs of their own (R22 to R24): their sizes, arguments and results.
#include "nn/language/check/checker.hpp"

namespace tete {

Slots::Filler Checker::target_of(Instance& in, const ExprText& e) const {
  if (e.kind == ExprKind::call && in.slots->contains(e.word.name))
    return in.slots->filler(e.word, draft_.library);
  return {in.callee(e)};
}

// The texts that amend the call: those of its slot, then those of the statement.
std::vector<Program> Checker::amending(Instance& in, const StatementText& s,
                                       const Slots::Filler& target) const {
  std::vector<Program> texts;
  for (const std::vector<Word>* names : {&target.with, &s.with})
    for (const Word& name : *names)
      if (const auto found = in.slots->amendment(name, draft_.library)) texts.push_back(*found);
  return texts;
}

void Checker::call_apart(Instance& in, const StatementText& s, const Slots::Filler& target,
                         CheckedValue left) {
  check_depth(in, s.right.place);
  const Def& def = *target.callee.def;
  const Arguments arguments = read_arguments(in, s.right, def);
  CheckedCall call;
  call.place = s.right.place;
  if (!s.repeated.name.empty()) call.repeated = in.dimension(s.repeated);
  call.tied = s.tied;
  Checker inner(amending(in, s, target), draft_.library, draft_.extent);
  call.program = std::make_shared<const Checked>(inner.run(target, &in, arguments));
  draft_.program.takes_mask |= call.program->takes_mask;
  draft_.program.takes_padding |= call.program->takes_padding;
  pass_apart(in, def, arguments, call);
  Names dims = left.dims;
  if (call.repeated >= 0 && dims.contains(call.repeated)) {
    if (dims[0] != call.repeated)
      fail_at({left.place}, text("'", s.repeated.name, "' counts the repetitions; it is the first ",
                                 "dimension of what keeps them"));
    call.keeps = true;
    dims.erase(0);
  }
  return_apart(s.left.whole, def, call, dims);
  left.kind = ValueKind::call;
  if (target.is_slot) left.slot = s.right.word.name;
  left.index = static_cast<int>(draft_.program.calls.size());
  draft_.program.calls.push_back(std::move(call));
  in.define(s.left.word, draft_.add(std::move(left)));
}

void Checker::pass_apart(Instance& in, const Def& def, const Arguments& arguments,
                         CheckedCall& call) {
  const Checked& program = *call.program;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    size_t a = 0;
    while (def.args[a].ref.word.name != program.input_names[i]) ++a;
    const ArgText& arg = def.args[a];
    const Names& wanted = program.values[program.inputs[i]].dims;
    const CheckedValue& given = draft_.value(arguments[a].value);
    CheckedCall::Passed passed{arguments[a].value};
    Names dims;
    for (int k = 0; k < given.dims.size(); ++k)
      if (given.dims[k] == call.repeated) passed.row = k;
      else dims.push_back(given.dims[k]);
    check_passed(arg, wanted.size(), dims.size(), given.element, arguments[a].place);
    for (int k = 0; k < dims.size(); ++k) {
      if (draft_.dim(dims[k]).role != Role::none &&
          program.dimensions[wanted[k]].role == Role::none)
        fail_at({arguments[a].place, arg.ref.whole},
                text("'", draft_.dim(dims[k]).name, "' is a sequence, and '", def.word.name,
                     "', which is repeated, amended or fills a slot, takes sequences as X and M; '",
                     arg.ref.word.name, "' has an axis of neither"));
      call.sizes.push_back({wanted[k], dims[k], true});
    }
    if (arg.ref.word.name == "X" && !dims.empty()) call.queries = dims[0];
    if (arg.ref.word.name == "M" && !dims.empty()) call.memory = dims[0];
    call.passed.push_back(passed);
  }
  const size_t arguments_end = call.sizes.size();
  for (int open : program.open) {
    const auto is_open = [&](const CheckedCall::Size& size) { return size.inner == open; };
    const auto end = call.sizes.begin() + static_cast<std::ptrdiff_t>(arguments_end);
    if (std::any_of(call.sizes.begin(), end, is_open)) continue;
    const Dimension& d = program.dimensions[open];
    call.sizes.push_back({open, in.outer_dimension(d.name, d.place), false});
  }
}

void Checker::return_apart(const Place& place, const Def& def, const CheckedCall& call,
                           const Names& left) {
  const Checked& program = *call.program;
  const Names& result = program.values[program.result].dims;
  if (result.size() != left.size())
    fail_at({place, def.result.whole},
            text("'", def.word.name, "' returns ", counted(result.size(), "dimension"),
                 ", but the left has ", left.size()));
  if (call.repeated >= 0) {
    const bool goes_in = !call.passed.empty() && call.passed[0].row < 0 &&
                         program.values[program.inputs[0]].dims.size() == result.size();
    if (!goes_in)
      fail_at({call.place, def.result.whole},
              text("what '", def.word.name, "' returns goes in again as its first argument, so it ",
                   "has the dimensions of that"));
  }
  for (int k = 0; k < result.size(); ++k) {
    const auto same = std::find_if(
        call.sizes.begin(), call.sizes.end(),
        [&](const CheckedCall::Size& size) { return size.is_argument && size.inner == result[k]; });
    if (same != call.sizes.end()) draft_.take_result(left[k], same->outer, place);
    if (call.repeated >= 0) draft_.take_result(left[k], call.sizes[k].outer, place);
    const auto number = static_cast<int>(draft_.program.calls.size());
    draft_.dim(left[k]).call = number, draft_.dim(left[k]).inner = result[k];
    draft_.program.conditions.push_back(
        {ConditionKind::returned, left[k], {}, number, place, result[k]});
  }
}

}  // namespace tete
