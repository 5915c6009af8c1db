// Amendments: defs that change a tensor of a text from outside (R11).
#include "nn/language/check/checker.hpp"

namespace tete {

void Checker::add_amendments(const Program& program) {
  draft_.program.sources.push_back(program.source);
  const auto shared = std::make_shared<const Program>(program);
  const std::set<std::string> called = called_defs(*shared);
  for (const Def& def : shared->defs) {
    if (called.contains(def.word.name)) continue;
    if (def.args.empty() || def.args[0].kind != ArgKind::input)
      fail_at({def.word.place}, "'", def.word.name, "' amends nothing: its first argument ",
              "must be the tensor that it amends, as in L[n, m, h]");
    add_amendment({&def, shared}, false);
  }
}

void Checker::add_amendment(const Callee& def, bool inherited) {
  const Word& name = def.def->word;
  for (const Amending& other : amendments_)
    if (other.def.def->word.name == name.name)
      fail_at({name.place, other.def.def->word.place}, "two amendments are called '", name.name,
              "'; their parameters need names of their own");
  amendments_.push_back({def, false, inherited});
}

void Checker::inherit(const Checker& outer, const Instance& in) {
  if (in.amends) return;
  for (const Amending& a : outer.amendments_)
    if (!in.amended_in.contains(a.def.program.get())) {
      draft_.program.sources.push_back(a.def.program->source);
      add_amendment(a.def, true);
    }
}

void Checker::take_applied(const Checker& inner) {
  for (const Amending& a : inner.amendments_)
    for (Amending& own : amendments_)
      own.applied |= a.inherited && a.applied && a.def.def == own.def.def;
}

namespace {

// True if the def's own text defines a tensor of this name.
bool writes(const Def& def, const std::string& name) {
  return std::any_of(def.args.begin(), def.args.end(),
                     [&](const ArgText& a) { return a.ref.word.name == name; }) ||
         std::any_of(def.statements.begin(), def.statements.end(),
                     [&](const StatementText& s) { return s.left.word.name == name; });
}

// The papers' letters are a protocol: J leaves the dot product and L enters the softmax, W leaves
// it and U multiplies V. A text that computes nothing between J and L has only L, and one that
// computes nothing between W and U has only W.
std::string stands_in(const std::string& name) {
  return name == "J" ? "L" : name == "U" ? "W" : "";
}

// The name under which the tensor `name` of the protocol is found in `in`, a call in the place of
// `around` or below it.
std::string name_in(const Def& around, const Instance& in, const std::string& name) {
  const bool is_there = writes(around, name) || writes(in.def, name) || in.values.contains(name);
  return is_there || stands_in(name).empty() ? name : stands_in(name);
}

// Passes an amendment its other inputs: the tensors of `in` that have their names.
void pass_inputs(const Def& around, Instance& in, const Def& amendment, const std::string& name,
                 const Place& place, Arguments& arguments) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    const ArgText& arg = amendment.args[i];
    if (arg.kind != ArgKind::input && arg.kind != ArgKind::integer) continue;
    const auto at = in.values.find(name_in(around, in, arg.ref.word.name));
    if (at == in.values.end())
      fail_at({arg.ref.whole, place}, "'", amendment.word.name, "' needs '", arg.ref.word.name,
              "', which '", in.def.word.name, "' does not have before '", name, "'");
    in.used.insert(at->first);
    arguments[i].value = at->second;
  }
}

}  // namespace

Checker::Letters Checker::letters_of(const Def& def) const {
  Letters found;
  for (const Amending& a : amendments_) {
    const std::string& letter = a.letter();
    if (writes(def, letter) || writes(def, stands_in(letter))) found.insert(letter);
  }
  return found;
}

const Checker::Letters& Checker::letters_below(const Callee& callee, int depth) {
  const auto [at, fresh] = letters_below_.try_emplace(callee.def, callee, Letters{});
  if (!fresh || depth > deepest_call) return at->second.second;
  Letters all = letters_of(*callee.def);
  for (const StatementText& s : callee.def->statements)
    if (const Callee inner = find_callee(s.right, callee.program, draft_.library); inner.def)
      all.merge(Letters(letters_below(inner, depth + 1)));
  return at->second.second = all;
}

// R11: the outermost def that has all tensors that the text amends; or, if none has, the innermost
// that has them together with the defs that it calls.
bool Checker::is_amended_in(const Instance& in, const Program& amending) {
  const auto has_all = [&](const Letters& letters) {
    return std::all_of(amendments_.begin(), amendments_.end(), [&](const Amending& a) {
      return a.def.program.get() != &amending || letters.contains(a.letter());
    });
  };
  if (has_all(letters_of(in.def))) return true;
  const auto calls_one = [&](const StatementText& s) {
    const Callee inner = find_callee(s.right, in.program, draft_.library);
    return inner.def && has_all(letters_below(inner, in.depth));
  };
  return has_all(letters_below({&in.def, in.program}, in.depth)) &&
         std::none_of(in.def.statements.begin(), in.def.statements.end(), calls_one);
}

void Checker::find_amended(Instance& in) {
  if (in.amends) return;
  if (in.caller) in.amended_in = in.caller->amended_in;
  for (const Amending& a : amendments_) {
    const Program* const text = a.def.program.get();
    if (!in.amended_in.contains(text) && is_amended_in(in, *text)) in.amended_in[text] = &in;
  }
}

// The amendments of the tensor `name`, which `in` defines. A def's tensor is amended only if the
// one around it that is amended defines none of that name.
std::vector<Amending*> Checker::amendments_of(const Instance& in, const std::string& name) {
  std::vector<Amending*> found;
  for (Amending& a : amendments_) {
    const auto at = in.amended_in.find(a.def.program.get());
    if (at == in.amended_in.end()) continue;
    const Instance& around = *at->second;
    if (&around != &in && writes(around.def, name)) continue;
    if (name_in(around.def, in, a.letter()) == name) found.push_back(&a);
  }
  return found;
}

void Checker::amend(Instance& in, const std::string& name, const Place& place) {
  for (Amending* a : amendments_of(in, name)) amend(in, name, place, *a);
}

// Amends an input that is another one under a new name (M is X). An amending text that has amended
// the other one has amended this one, too.
void Checker::amend_renamed(Instance& in, const ArgText& arg) {
  const std::string &name = arg.ref.word.name, &source = arg.same_as.word.name;
  for (Amending* a : amendments_of(in, name)) {
    const auto both = amendments_of(in, source);
    const bool done = std::any_of(both.begin(), both.end(), [&](const Amending* other) {
      return other->def.program == a->def.program;
    });
    if (done) a->applied = true;
    else amend(in, name, arg.ref.whole, *a);
  }
}

void Checker::amend(Instance& in, const std::string& name, const Place& place, Amending& by) {
  const Def& def = *by.def.def;
  const int raw = in.values.at(name);
  const std::string prefix = in.prefix + def.word.name + ".";
  // Hooks are not offered the tensor itself, because the amendment's argument is the same one.
  draft_.value(raw).name = prefix + name;
  draft_.value(raw).watched = false;

  const Names dims = draft_.value(raw).dims;
  if (const ArgText& first = def.args[0]; std::ssize(first.ref.axes) != dims.size())
    fail_at({place, first.ref.whole}, "'", def.word.name, "' does not fit '", in.def.word.name,
            "': it amends '", first.ref.word.name, "' of ",
            counted(first.ref.axes.size(), "dimension"), ", but here it has ", dims.size());

  Arguments arguments(def.args.size(), Argument{-1, place});
  arguments[0].value = raw;
  pass_inputs(in.amended_in.at(by.def.program.get())->def, in, def, name, place, arguments);
  const int given = call(in, by.def, prefix, arguments, place, true);
  const Names given_dims = draft_.value(given).dims;
  if (given_dims.size() != dims.size())
    fail_at({def.result.whole, place}, "'", def.word.name, "' must return ",
            counted(dims.size(), "dimension"), ", as '", name, "' has, but it returns ",
            given_dims.size());
  for (int i = 0; i < dims.size(); ++i) draft_.take_result(dims[i], given_dims[i], place);
  in.values[name] = draft_.renamed(given, in.prefix + name, place, dims);
  by.applied = true;
}

// A text whose tensors are all there has been applied.
void Checker::check_amendments_applied() {
  for (const Amending& a : amendments_) {
    if (a.applied || a.inherited ||
        letters_below({&root_->def, root_->program}, 0).contains(a.letter()))
      continue;
    const Word& word = a.def.def->args[0].ref.word;
    fail_at({word.place}, "'", a.def.def->word.name, "' amends '", word.name, "', but '",
            root_->def.word.name, "' has no tensor of that name",
            suggestion(word.name, keys_of(root_->values)));
  }
}

}  // namespace tete
