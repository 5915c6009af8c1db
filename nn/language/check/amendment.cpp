// Amendments: defs that change a tensor of a text from outside (R11).
#include "nn/language/check/checker.hpp"

namespace tete {

void Checker::add_amendments(const Program& program) {
  draft_.program.sources.push_back(program.source);
  const auto shared = std::make_shared<const Program>(program);
  const std::set<std::string> called = called_defs(*shared);
  for (const Def& def : shared->defs) {
    if (called.contains(def.word.name)) continue;
    if (def.args.empty() || def.args[0].kind != ArgText::Kind::input)
      fail_at({def.word.place}, text("'", def.word.name, "' amends nothing: its first argument ",
                                     "must be the tensor that it amends, as in L[n, m, h]"));
    for (const Amending& other : amendments_)
      if (other.def.def->word.name == def.word.name)
        fail_at({def.word.place, other.def.def->word.place},
                text("two amendments are called '", def.word.name,
                     "'; their parameters need names of their own"));
    amendments_.push_back({{&def, shared}});
  }
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

// The name under which the tensor `name` of the protocol is found in `in`.
std::string name_in(const Def& root, const Instance& in, const std::string& name) {
  const bool is_there = writes(root, name) || writes(in.def, name) || in.values.contains(name);
  return is_there || stands_in(name).empty() ? name : stands_in(name);
}

// Passes an amendment its other inputs: the tensors of `in` that have their names.
void pass_inputs(const Def& root, Instance& in, const Def& amendment, const std::string& name,
                 const Place& place, Arguments& arguments) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    const ArgText& arg = amendment.args[i];
    if (arg.kind != ArgText::Kind::input && arg.kind != ArgText::Kind::integer) continue;
    const auto at = in.values.find(name_in(root, in, arg.ref.word.name));
    if (at == in.values.end())
      fail_at({arg.ref.whole, place},
              text("'", amendment.word.name, "' needs '", arg.ref.word.name, "', which '",
                   in.def.word.name, "' does not have before '", name, "'"));
    in.used.insert(at->first);
    arguments[i].value = at->second;
  }
}

}  // namespace

// The amendments of the tensor `name`, which `in` defines. A called def's tensor is amended only if
// the main def defines none of that name.
std::vector<Amending*> Checker::amendments_of(const Instance& in, const std::string& name) {
  std::vector<Amending*> found;
  if (in.amends || (in.caller && writes(root_->def, name))) return found;
  for (Amending& a : amendments_)
    if (name_in(root_->def, in, a.def.def->args[0].ref.word.name) == name) found.push_back(&a);
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

  Arguments arguments(def.args.size(), Argument{-1, place});
  arguments[0].value = raw;
  pass_inputs(root_->def, in, def, name, place, arguments);
  const int given = call(in, by.def, prefix, arguments, place, true);
  const Names dims = draft_.value(raw).dims, given_dims = draft_.value(given).dims;
  if (given_dims.size() != dims.size())
    fail_at({def.result.whole, place},
            text("'", def.word.name, "' must return ", counted(dims.size(), "dimension"), ", as '",
                 name, "' has, but it returns ", given_dims.size()));
  for (int i = 0; i < dims.size(); ++i) draft_.take_result(dims[i], given_dims[i], place);
  in.values[name] = draft_.renamed(given, in.prefix + name, place, dims);
  by.applied = true;
}

void Checker::check_amendments_applied() const {
  for (const Amending& a : amendments_) {
    if (a.applied) continue;
    const Word& word = a.def.def->args[0].ref.word;
    fail_at({word.place}, text("'", a.def.def->word.name, "' amends '", word.name, "', but '",
                               root_->def.word.name, "' has no tensor of that name",
                               suggestion(word.name, keys_of(root_->values))));
  }
}

}  // namespace tete
