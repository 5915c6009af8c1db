// A def written out in the place of a call of it: arguments, sizes, statements.
#include "nn/language/check/checker.hpp"

namespace tete {

namespace {

constexpr int most_names = 24;  // in one statement; the rest of max_names is for the batch

void check_def_name(const Def& def) {
  if (find_builtin(def.word.name))
    fail_at({def.word.place}, "a def cannot be called '", def.word.name, "': that is a function");
}

// ---- Arguments --------------------------------------------------------------------------------

// R5: X's first axis is the queries' sequence, M's the memory's. In a call the roles come with the
// arguments; one sequence that is passed for both attends to itself.
void assign_roles(Instance& in) {
  int n = -1, m = -1;
  bool is_renamed = false;
  for (const ArgText& arg : in.def.args) {
    if (arg.kind == ArgKind::parameter || arg.ref.axes.empty()) continue;
    const auto at = in.dims.find(arg.ref.axes[0].word.name);
    const int first = at == in.dims.end() ? -1 : at->second;
    if (arg.ref.word.name == "X") n = first;
    if (arg.ref.word.name == "M") m = first, is_renamed = arg.kind == ArgKind::renamed;
  }
  const auto role = [&](int dim) -> Role& { return in.draft.dim(dim).role; };
  const auto sequence = [&](int dim) -> Role& { return in.draft.dim(dim).sequence; };
  if (!in.caller) {
    if (n >= 0) role(n) = sequence(n) = Role::query;
    if (m >= 0 && m != n) {
      role(m) = Role::memory;
      sequence(m) = is_renamed ? Role::query : Role::memory;
    }
  } else if (n >= 0 && m >= 0 && n != m && role(n) != Role::none &&
             (is_renamed || role(n) == role(m))) {
    role(n) = Role::query;
    role(m) = Role::memory;
    if (sequence(m) == Role::none) sequence(m) = sequence(n);
  }
}

// Takes the value that a call passes for this argument.
int take_passed(Draft& draft, const ArgText& arg, const Argument& passed, const CheckedValue& v) {
  const Names given = draft.value(passed.value).dims;
  const Element element = draft.value(passed.value).element;
  check_passed(arg, v.dims.size(), given.size(), element, passed.place);
  for (int i = 0; i < given.size(); ++i) draft.take_argument(v.dims[i], given[i], passed.place);
  return draft.renamed(passed.value, v.name, v.place, v.dims);
}

// Adds an input under other names: M[m, d_X] = X[n, d_X] (R4).
int rename_input(Instance& in, const ArgText& arg) {
  const Names dims = in.defined_dims(arg.ref);
  const int other = in.resolve_plain(arg.same_as, "an input");
  if (arg.ref.axes.size() != arg.same_as.axes.size())
    fail_at({arg.ref.whole, arg.same_as.whole}, "'", arg.ref.word.name, "' has ",
            counted(dims.size(), "dimension"), ", but '", arg.same_as.word.name, "' has ",
            arg.same_as.axes.size());
  for (int i = 0; i < dims.size(); ++i)
    in.draft.take_argument(dims[i], in.draft.value(other).dims[i], arg.ref.whole);
  if (!in.caller && arg.ref.word.name == "M") in.draft.program.self_only = true;
  return in.draft.renamed(other, in.prefix + arg.ref.word.name, arg.ref.whole, dims);
}

// R19: a model's text says that X's sequence is causal.
void mark_causal(Instance& in, const ArgText& arg) {
  for (const AxisText& axis : arg.ref.axes) {
    if (!axis.causal) continue;
    const bool is_first = &axis == &arg.ref.axes[0] && arg.ref.word.name == "X";
    if (!is_first || arg.kind == ArgKind::parameter)
      fail_at({axis.word.place}, "'causal' stands before the first dimension of the input X");
    if (in.around)
      fail_at({axis.word.place}, "'", in.def.word.name,
              "' marks its input as causal, as only whole models do: ",
              "it cannot be called, nor fill a slot");
    in.draft.program.causal = true;
  }
}

int add_input(Draft& draft, const ArgText& arg, CheckedValue v) {
  Checked& program = draft.program;
  v.kind = ValueKind::input;
  v.index = static_cast<int>(program.inputs.size());
  program.input_names.push_back(arg.ref.word.name);
  const int value = draft.add(std::move(v));
  program.inputs.push_back(value);
  return value;
}

int add_parameter(Instance& in, const ArgText& arg, CheckedValue v) {
  Checked& program = in.draft.program;
  for (int i = 0; i < v.dims.size(); ++i)
    if (v.bounds[i] >= 0)
      program.conditions.push_back(
          {ConditionKind::room, v.dims[i], {v.bounds[i]}, 0, v.axis_places[i]});
  v.kind = ValueKind::parameter;
  v.index = static_cast<int>(program.parameters.size());
  const std::string name = v.name;
  in.parameters.push_back({&arg, v.index});
  const int value = in.draft.add(std::move(v));
  program.parameters.push_back({name, value, nullptr, {}, arg.fixed, arg.per_stack});
  return value;
}

// Reads how a parameter starts: normal(d_X^-0.5), …
void read_start(Instance& in, const ExprText& e, CheckedParameter& parameter) {
  const InitializerRow* const row = find_named(e.word.name, initializers());
  if (!row)
    fail_at({e.word.place}, "unknown initialiser '", e.word.name, "'",
            choice(e.word.name, names_of_rows(initializers())));
  if (!e.keys.empty()) fail_at({e.keys[0].key.place}, row->usage, " takes no names");
  if (std::ssize(e.args) != row->args)
    fail_at({e.word.place}, "expected ", row->usage, ", got ",
            counted(std::ssize(e.args), "argument"));
  parameter.start = row;
  parameter.args.clear();  // a `start` of a use replaces the def's own
  for (const ExprText& a : e.args)
    parameter.args.push_back(Reading::quantity(in, a, "an initialiser's argument"));
  const bool is_shared = parameter.per_stack || (in.turn && in.turn->tied);
  for (const Node& arg : parameter.args)
    if (const Node* layer = layer_in(arg); layer && is_shared)
      fail_at({layer->place},
              "all repetitions share this parameter, so that it starts alike in "
              "each, whatever its number");
}

// R26: `use … start` replaces how matrices spread; those that mix heads start as the identity.
void restart(Instance& in, CheckedParameter& parameter) {
  const Names& dims = in.draft.value(parameter.value).dims;
  if (!in.start || dims.size() < 2 || !Initializer{parameter.start->kind}.is_spread()) return;
  std::vector<std::string> names;
  for (int dim : dims) names.push_back(in.draft.dim(dim).short_name());
  if (!mixes_heads(names)) return read_start(in, *in.start, parameter);
  parameter.start = find_named("identity", initializers());
  parameter.args.clear();
}

// ---- Sizes ------------------------------------------------------------------------------------

// True if a text around the slot that `in` fills gives this size: a filler's own is a default
// (R22).
bool is_given_around(const Instance& in, const std::string& size) {
  if (!in.fills) return false;
  for (const Instance* outer = in.around; outer; outer = outer->around)
    for (const WhereText& w : outer->def.where)
      if (w.word.name == size) return true;
  return false;
}

void read_where(Instance& in) {
  std::map<std::string, Place> seen;
  for (const WhereText& w : in.def.where) {
    const auto [before, fresh] = seen.try_emplace(w.word.name, w.word.place);
    if (!fresh) fail_at({w.word.place, before->second}, "'", w.word.name, "' is given twice");
    const int dim = in.dims.at(w.word.name);
    const Node value = Reading::quantity(in, w.value, "a size");
    if (const Node* layer = layer_in(value))
      fail_at({layer->place},
              "a size is the same in all repetitions; 'layer' stands in values and "
              "in how parameters start");
    if (w.value.kind == ExprKind::dim && w.value.word.name == w.word.name)
      fail_at({w.value.place}, "'", w.word.name, "' is given by itself");
    if (is_given_around(in, w.word.name)) continue;
    in.draft.dim(dim).fallback = {value};
    in.draft.dim(dim).fallback_place = w.word.place;
  }
}

// A size that no filler of a slot takes may be one that another takes.
void check_all_used(const Instance& in) {
  for (const WhereText& w : in.def.where)
    if (!in.has_slots && !in.mentioned.contains(w.word.name)) {
      std::vector<std::string> others = keys_of(in.dims);
      std::erase(others, w.word.name);
      fail_at({w.word.place}, "the size '", w.word.name, "' is never used",
              suggestion(w.word.name, others));
    }
  for (const ArgText& arg : in.def.args)
    if (arg.kind == ArgKind::parameter && !in.used.contains(arg.ref.word.name) &&
        !in.left.contains(arg.ref.word.name))
      fail_at({arg.ref.word.place}, "the parameter '", arg.ref.word.name,
              "' is never used: it would never learn");
  for (const StatementText& s : in.def.statements)
    if (!s.is_loss && !in.used.contains(s.left.word.name))
      fail_at({s.left.word.place}, "'", s.left.word.name, "' is never used");
}

// ---- Statements -------------------------------------------------------------------------------

// The names on the left with h=(g s) written as g, s; h takes their product as its size.
Names merged_names(Instance& in, const RefText& left) {
  Names names;
  for (const AxisText& axis : left.axes) {
    const int dim = in.dims.at(axis.word.name);
    Names parts;
    for (const Word& part : axis.parts) {
      parts.push_back(in.dimension(part));
      refuse_twice(left, part, names.contains(parts.back()));
      names.push_back(parts.back());
    }
    if (axis.parts.empty()) {
      refuse_twice(left, axis.word, names.contains(dim));
      names.push_back(dim);
      continue;
    }
    Draft& draft = in.draft;
    if (!in.has_as_argument(axis.word.name) && draft.dim(dim).product.empty())
      draft.dim(dim).product = parts;
    draft.program.conditions.push_back({ConditionKind::product, dim, parts, 0, axis.word.place});
  }
  return names;
}

void refuse_merged(const RefText& left) {
  for (const AxisText& axis : left.axes)
    if (!axis.parts.empty())
      fail_at({axis.word.place},
              "the result of a def takes plain names; merge them in a statement of its own");
}

// True if the def attends to a memory: it has a tensor M over a sequence.
bool has_memory(const Def& def) {
  return std::any_of(def.args.begin(), def.args.end(), [](const ArgText& arg) {
    return arg.kind != ArgKind::parameter && arg.ref.word.name == "M" && !arg.ref.axes.empty();
  });
}

bool is_def_or_slot(const Instance& in, const ExprText& e) {
  return in.slots->contains(e.word.name) || in.callee(e).def;
}

bool runs_apart(const Slots::Filler& target) {
  return !target.with.empty() || !target.after.empty() ||
         (target.is_slot && has_memory(*target.callee.def));
}

void add_tensors(const ExprText& e, std::set<std::string>& names) {
  if (e.kind == ExprKind::ref) names.insert(e.ref.word.name);
  for (const ExprText& arg : e.args) add_tensors(arg, names);
  for (const ExprText& key : e.keys) add_tensors(key, names);
}

void check_name_count(const CheckedValue& v) {
  std::set<int> names;
  visit(v.right, [&](const Node& node) { names.insert(node.names.begin(), node.names.end()); });
  if (static_cast<int>(names.size()) > most_names)
    fail_at({v.place}, "a statement has at most ", most_names, " names of dimensions, this ",
            "has ", names.size());
}

}  // namespace

int Checker::write_out(Instance& in, const Arguments& arguments, const Place& place) {
  check_def_name(in.def);
  for (const Instance* outer = in.around; outer; outer = outer->around)
    if (&outer->def == &in.def) fail_at({place}, "'", in.def.word.name, "' calls itself");
  in.declare_dimensions();
  in.left = left_parameters(in);
  define_arguments(in, arguments);
  read_where(in);
  for (const auto& [arg, number] : in.parameters) {
    CheckedParameter& parameter = draft_.program.parameters[number];
    read_start(in, arg->init, parameter);
    restart(in, parameter);
  }
  for (const StatementText& s : in.def.statements) statement(in, s);
  in.open_dimensions();
  const int result = in.resolve_plain(in.def.result, "the result");
  check_all_used(in);
  return result;
}

// The most arguments that a call of a slot or def takes, over the repetitions that are filled
// otherwise.
size_t Checker::taken_by_any(const Instance& in, const StatementText& s) const {
  CallSite site = site_of(in, s.left.word.name);
  const auto taken = [&] {
    return taken_arguments(in, s.right, *target_of(in, s.right, site).callee.def);
  };
  if (s.repeated.name.empty()) return taken();
  Turn turn{.depth = site.path.size() - 1, .tied = s.tied};
  site.turn = &turn;
  size_t most = taken();
  for (const std::vector<NumberText>& numbers : in.slots->numbered()) {
    turn.number = numbers[0].value;
    most = std::max(most, taken());
  }
  return most;
}

// R22: the parameters that the def passes to slots alone, where nothing that fills them takes one.
std::set<std::string> Checker::left_parameters(const Instance& in) const {
  std::set<std::string> offered, used{in.def.result.word.name};
  for (const ArgText& arg : in.def.args) used.insert(arg.same_as.word.name);
  for (const StatementText& s : in.def.statements) {
    ExprText taken = s.right;
    if (taken_arguments(in, s.right, {}) < s.right.args.size()) {
      taken.args.resize(taken_by_any(in, s));
      add_tensors(s.right, offered);
    }
    add_tensors(taken, used);
  }
  std::erase_if(offered, [&](const std::string& name) { return used.contains(name); });
  return offered;
}

// Defines inputs and parameters, then inputs under other names. Each is amended as soon as it and
// the roles of its axes are known.
void Checker::define_arguments(Instance& in, const Arguments& arguments) {
  const std::vector<ArgText>& args = in.def.args;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].kind != ArgKind::renamed && !in.left.contains(args[i].ref.word.name))
      define_argument(in, args[i], arguments[i]);
  assign_roles(in);
  for (const ArgText& arg : args)
    if (arg.kind != ArgKind::renamed && in.values.contains(arg.ref.word.name))
      amend(in, arg.ref.word.name, arg.ref.whole);
  for (const ArgText& arg : args) {
    if (arg.kind != ArgKind::renamed) continue;
    in.check_new_name(arg.ref.word);
    in.define(arg.ref.word, rename_input(in, arg));
    amend_renamed(in, arg);
  }
}

void Checker::define_argument(Instance& in, const ArgText& arg, const Argument& passed) {
  in.check_new_name(arg.ref.word);
  CheckedValue v;
  v.name = in.prefix + arg.ref.word.name;
  v.place = arg.ref.whole;
  const bool is_parameter = arg.kind == ArgKind::parameter;
  v.dims = in.defined_dims(arg.ref, is_parameter ? &v.bounds : nullptr);
  for (const AxisText& axis : arg.ref.axes) v.axis_places.push_back(axis.word.place);
  mark_causal(in, arg);
  if (arg.kind == ArgKind::integer) {
    v.element = Element::whole;
    v.below = in.dimension(arg.below);
  }
  const bool is_own = is_parameter && !passed.is_input;
  const int value = passed.value >= 0 ? take_passed(draft_, arg, passed, v)
                    : is_own          ? add_parameter(in, arg, std::move(v))
                                      : add_input(draft_, arg, std::move(v));
  in.define(arg.ref.word, value);
}

// R25: one number for each sample, which no statement reads.
void Checker::loss_term(Instance& in, const StatementText& s, CheckedValue v) {
  if (!s.left.axes.empty())
    fail_at({s.left.whole}, "a term of the loss is one number: write ", s.left.word.name, "[]");
  if (s.right.kind == ExprKind::call && is_def_or_slot(in, s.right))
    fail_at({s.right.place},
            "a term of the loss is an expression; give what the call returns a "
            "name first");
  v.right = Reading(in, s, v.names).expression(s.right);
  need(v.right, Element::real, "a term of the loss");
  check_name_count(v);
  in.written[s.left.word.name] = s.left.word.place;
  draft_.program.losses.push_back(draft_.add(std::move(v)));
}

void Checker::statement(Instance& in, const StatementText& s) {
  in.check_new_name(s.left.word);
  CheckedValue v;
  v.name = in.prefix + s.left.word.name;
  v.place = s.left.whole;
  v.dims = in.defined_dims(s.left);
  v.names = merged_names(in, s.left);
  if (s.is_loss) return loss_term(in, s, std::move(v));
  const bool is_call = s.right.kind == ExprKind::call && is_def_or_slot(in, s.right);
  if (s.is_apart() && !is_call)
    fail_at({s.right.place}, "'with' and 'repeated' stand after the call of a def or a slot");
  if (is_call) {
    refuse_merged(s.left);
    if (in.slots->contains(s.right.word.name))
      for (Instance* at = &in; at; at = at->around) at->has_slots = true;
    Slots::Filler target;
    if (!s.is_apart()) target = target_of(in, s.right, site_of(in, s.left.word.name));
    if (s.is_apart() || runs_apart(target)) call_apart(in, s, v);
    else call_statement(in, s, target, v);
  } else {
    v.right = Reading(in, s, v.names).expression(s.right);
    v.element = v.right.element;
    check_name_count(v);
    in.define(s.left.word, draft_.add(std::move(v)));
  }
  amend(in, s.left.word.name, s.left.whole);
}

}  // namespace tete
