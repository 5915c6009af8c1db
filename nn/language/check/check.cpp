// The checker's entry: finds the def that a text is about, and checks all defs.
#include "nn/language/check/checker.hpp"

namespace tete {

// A call of a def is a whole right-hand side; a slot calls what fills it, and what amends a call is
// called in it.
std::set<std::string> called_defs(const Program& program) {
  std::set<std::string> called;
  const auto amended_with = [&](const std::vector<Word>& names) {
    for (const Word& name : names) called.insert(name.name);
  };
  for (const UseText& use : program.uses) called.insert(use.filler.name), amended_with(use.with);
  for (const Def& def : program.defs)
    for (const StatementText& s : def.statements) {
      if (s.right.kind == ExprKind::call && s.right.word.name != def.word.name)
        called.insert(s.right.word.name);
      amended_with(s.with);
    }
  return called;
}

Checker::Checker(const std::vector<Program>& amendments, const Library& library, Extent& extent)
    : draft_{library, extent} {
  for (const Program& program : amendments) add_amendments(program);
}

Checked Checker::run(const Callee& callee, const Slots& slots) {
  Instance& root = instances_.emplace_back(Instance{draft_, *callee.def, callee.program, ""});
  root.slots = &slots_.emplace_back(slots);
  return run(root, {});
}

Checked Checker::run(const Slots::Filler& target, Instance& around, const CallSite& site,
                     const Arguments& arguments) {
  const Callee& callee = target.callee;
  Instance& root = instances_.emplace_back(
      Instance{draft_, *callee.def, callee.program, "", nullptr, &around, around.depth + 1});
  root.slots = &slots_.emplace_back(callee.program, site, *around.slots);
  root.fills = target.is_slot;
  root.start = target.start ? target.start : around.start;
  root.called_by = site.path.back(), root.turn = site.turn;
  return run(root, arguments);
}

Checked Checker::run(Instance& root, const Arguments& arguments) {
  const Def& def = root.def;
  draft_.program.sources.push_back(root.program->source);
  draft_.program.name = def.word.name;
  root_ = &root;
  find_amended(root);
  const Place place = def.result.whole;
  Arguments passed(def.args.size(), Argument{-1, place});
  for (size_t i = 0; i < arguments.size(); ++i) passed[i].is_input = arguments[i].value >= 0;
  draft_.program.result = write_out(root, passed, place);
  if (root.around) draft_.program.open = root.undecided();
  check_amendments_applied();
  analyse(draft_.program);
  return std::move(draft_.program);
}

const Def& main_def(const Program& program) {
  const std::set<std::string> called = called_defs(program);
  for (const Def& def : program.defs)
    if (!called.contains(def.word.name)) return def;
  return program.defs[0];
}

Checked check(const Program& program, const std::vector<Program>& amendments,
              const Library& library, const std::vector<Program>& uses) {
  const auto shared = std::make_shared<const Program>(program);
  std::vector<std::shared_ptr<const Program>> said;
  for (const Program& use : uses) said.push_back(std::make_shared<const Program>(use));
  const Slots slots(shared, said);
  const Def& main = main_def(*shared);
  Extent extent;
  Checked checked = Checker(amendments, library, extent).run({&main, shared}, slots);
  for (const auto& use : said) {
    slots.refuse_unused(*use, main.word.name);
    checked.uses.push_back(use->source);
  }
  // Defs that no other def calls must be right, too.
  const std::set<std::string> called = called_defs(*shared);
  for (const Def& def : shared->defs)
    if (&def != &main && !called.contains(def.word.name))
      Checker({}, library, extent).run({&def, shared}, slots);
  if (said.empty()) slots.refuse_unused(*shared, main.word.name);
  return checked;
}

const CheckedCall& CheckedCall::at(Index repetition) const {
  for (const CheckedCall& other : others)
    for (const NumberText& number : other.numbers)
      if (number.value == repetition) return other;
  return *this;
}

int Checked::find_dimension(const std::string& name) const {
  const Dimension* const found = find_named(name, dimensions);
  return found ? static_cast<int>(found - dimensions.data()) : -1;
}

int Checked::find_value(const std::string& name) const {
  for (size_t i = values.size(); i-- > 0;)  // an amended tensor comes after the one it amends
    if (values[i].name == name) return static_cast<int>(i);
  return -1;
}

const std::string& Checked::name_of(int value) const {
  const CheckedValue& v = values[value];
  const auto at = static_cast<size_t>(v.index);
  if (v.kind == ValueKind::input) return input_names[at];
  return v.kind == ValueKind::parameter ? parameters[at].name : v.name;
}

bool Checked::has_memory() const {
  return std::find(input_names.begin(), input_names.end(), "M") != input_names.end();
}

bool Checked::is_apart() const { return causal && has_memory(); }

bool Checked::is_over(const Names& dims, Role role) const {
  return std::any_of(dims.begin(), dims.end(), [&](int dim) {
    return dimensions[dim].role == role || (role == Role::memory && flow.dimensions[dim].windows);
  });
}

bool Checked::is_loss(int value) const {
  return std::find(losses.begin(), losses.end(), value) != losses.end();
}

bool Checked::has_losses() const {
  bool has = !losses.empty();
  visit_called(*this, [&](const Checked& inner) { has = has || inner.has_losses(); });
  return has;
}

bool Checked::is_argument(int value) const {
  const ValueKind kind = values[value].kind;
  return kind == ValueKind::input || kind == ValueKind::parameter;
}

}  // namespace tete
