// The checker: names, elements, masks and calls. Calls are written out where they stand.
#include "nn/check.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "nn/analysis.hpp"

namespace tete {

namespace {

constexpr size_t most_values = 10000;  // a text that calls defs that call defs … ends here
constexpr int most_names = 24;         // in one statement; the rest of max_names is for the batch
constexpr size_t most_dims = 12;       // of one tensor; the rest of max_rank is for the batch

using Arguments = std::vector<int>;  // by argument of a def: the value passed, or -1

// A def in the place of one call of it.
struct Instance {
  const Def* def;
  std::shared_ptr<const Program> program;
  std::string prefix;  // "" or "Y."
  Instance* caller = nullptr;
  bool amends = false;  // it is an amendment: no amendment applies inside it
  std::map<std::string, int> dims = {};
  std::map<std::string, int> values = {};
  std::map<std::string, Place> written = {};  // where a value of this def's own text is defined
  std::set<std::string> mentioned = {};       // dims in annotations and expressions
  std::set<std::string> used = {};            // values
  std::vector<std::pair<const ArgText*, int>> starts = {};  // parameters, by number
};

std::vector<std::string> keys_of(const auto& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

bool contains_all(const Names& all, const Names& some) {
  return std::all_of(some.begin(), some.end(), [&](int name) { return all.contains(name); });
}

class Checker {
 public:
  Checker(const std::vector<Program>& amendments, const Library& library) : library_(library) {
    for (const Program& program : amendments) add_amendments(program);
  }

  Checked run(const std::shared_ptr<const Program>& program, const Def& root_def) {
    out_.sources.push_back(program->source);
    root_ = &root_def;
    out_.name = root_->word.name;
    Instance& root = instances_.emplace_back(Instance{root_, program, "", nullptr});
    const RefText& result = root_->result;
    out_.result = instantiate(root, Arguments(root_->args.size(), -1), result.whole);
    check_amendments_applied(root);
    analyse(out_);
    return std::move(out_);
  }

 private:
  struct Amendment {
    const Def* def;
    std::shared_ptr<const Program> program;
    bool applied = false;
  };

  // ---- Amendments -----------------------------------------------------------------------------

  void add_amendments(const Program& program) {
    out_.sources.push_back(program.source);
    const auto shared = std::make_shared<const Program>(program);
    for (const Def& def : shared->defs) {
      if (is_called(*shared, def.word.name)) continue;
      if (def.args.empty() || def.args[0].kind != ArgText::Kind::input)
        fail_at({def.word.place}, text("'", def.word.name, "' amends nothing: its first argument ",
                                       "must be the tensor that it amends, as in L[n, m, h]"));
      for (const Amendment& other : amendments_)
        if (other.def->word.name == def.word.name)
          fail_at({def.word.place, other.def->word.place},
                  text("two amendments are called '", def.word.name, "'"));
      amendments_.push_back({&def, shared});
    }
  }

  static bool calls(const ExprText& e, const std::string& name) {
    if (e.kind == ExprText::Kind::call && e.word.name == name) return true;
    return std::any_of(e.args.begin(), e.args.end(),
                       [&](const ExprText& arg) { return calls(arg, name); });
  }

 public:
  static bool is_called(const Program& program, const std::string& name) {
    for (const Def& def : program.defs)
      for (const StatementText& s : def.statements)
        if (def.word.name != name && calls(s.right, name)) return true;
    return false;
  }

 private:
  static bool writes(const Def& def, const std::string& name) {
    return std::any_of(def.args.begin(), def.args.end(),
                       [&](const ArgText& a) { return a.ref.word.name == name; }) ||
           std::any_of(def.statements.begin(), def.statements.end(),
                       [&](const StatementText& s) { return s.left.word.name == name; });
  }

  // The amendments of a tensor that `in` defines: in the text itself, or else in the defs it calls.
  std::vector<Amendment*> amendments_of(const Instance& in, const std::string& name) {
    std::vector<Amendment*> found;
    if (in.amends || (in.caller && writes(*root_, name))) return found;
    for (Amendment& a : amendments_)
      if (a.def->args[0].ref.word.name == name) found.push_back(&a);
    return found;
  }

  // Passes the value `name`, which has just been defined, through the defs that amend it.
  void amend(Instance& in, const std::string& name, const Place& place) {
    for (Amendment* a : amendments_of(in, name)) {
      const int raw = in.values.at(name);
      const std::string prefix = in.prefix + a->def->word.name + ".";
      rename_raw(raw, prefix + name);
      Arguments arguments(a->def->args.size(), -1);
      arguments[0] = raw;
      for (size_t i = 1; i < arguments.size(); ++i) {
        const ArgText& arg = a->def->args[i];
        if (arg.kind != ArgText::Kind::input && arg.kind != ArgText::Kind::integer) continue;
        const auto at = in.values.find(arg.ref.word.name);
        if (at == in.values.end())
          fail_at({arg.ref.whole, place},
                  text("'", a->def->word.name, "' needs '", arg.ref.word.name, "', which '",
                       in.def->word.name, "' does not have before '", name, "'"));
        in.used.insert(at->first);
        arguments[i] = at->second;
      }
      const int given = call(in, *a->def, a->program, prefix, arguments, place, true);
      if (values(given).dims.size() != values(raw).dims.size())
        fail_at({a->def->result.whole, place},
                text("'", a->def->word.name, "' must return as many dimensions as '", name,
                     "' has, ", values(raw).dims.size()));
      for (int i = 0; i < values(raw).dims.size(); ++i)
        take_result(values(raw).dims[i], values(given).dims[i], place);
      in.values[name] = renamed(given, in.prefix + name, place, values(raw).dims);
      a->applied = true;
    }
  }

  // A tensor as its own text gives it, before it is amended: the amendment's argument shows it.
  void rename_raw(int value, const std::string& name) {
    values(value).name = name;
    values(value).watched = false;
  }

  void check_amendments_applied(const Instance& root) {
    for (const Amendment& a : amendments_) {
      if (a.applied) continue;
      const Word& word = a.def->args[0].ref.word;
      fail_at({word.place},
              text("'", a.def->word.name, "' amends '", word.name, "', but '", out_.name,
                   "' has no tensor of that name", suggestion(word.name, keys_of(root.values))));
    }
  }

  // ---- Dimensions -----------------------------------------------------------------------------

  Dimension& dims(int dim) { return out_.dimensions[static_cast<size_t>(dim)]; }
  CheckedValue& values(int value) { return out_.values[static_cast<size_t>(value)]; }

  int declare_dimension(Instance& in, const std::string& name, const Place& place) {
    const auto [at, fresh] = in.dims.try_emplace(name, static_cast<int>(out_.dimensions.size()));
    if (fresh) {
      Dimension d;
      d.name = in.prefix + name;
      d.place = place;
      out_.dimensions.push_back(std::move(d));
    }
    return at->second;
  }

  // Every dimension that the def writes in an annotation or in `where`.
  void declare_dimensions(Instance& in) {
    const auto declare = [&](const Word& word) {
      if (!word.name.empty()) declare_dimension(in, word.name, word.place);
    };
    const auto axes = [&](const RefText& ref) {
      for (const AxisText& axis : ref.axes) {
        declare(axis.word), declare(axis.bound);
        for (const Word& part : axis.parts) declare(part);
      }
    };
    for (const ArgText& arg : in.def->args) axes(arg.ref), declare(arg.below);
    for (const WhereText& w : in.def->where) declare(w.word);
    for (const StatementText& s : in.def->statements) axes(s.left);
  }

  int dimension(Instance& in, const Word& word) {
    const auto at = in.dims.find(word.name);
    if (at == in.dims.end())
      fail_at({word.place}, text("'", word.name, "' is not a dimension of '", in.def->word.name,
                                 "'", suggestion(word.name, keys_of(in.dims))));
    in.mentioned.insert(word.name);
    return at->second;
  }

  // The calling def's dimension of the same name, for a size that a call leaves open.
  int outer_dimension(Instance& in, const std::string& name, const Place& place) {
    const bool known = in.dims.contains(name);
    const int dim = declare_dimension(in, name, place);
    in.mentioned.insert(name);
    if (!known && in.caller) dims(dim).outer = outer_dimension(*in.caller, name, place);
    return dim;
  }

  // The dimensions of a tensor where it is defined.
  Names defined_dims(Instance& in, const RefText& ref, bool is_parameter, Names* bounds) {
    Names names;
    refuse_many(ref);
    for (const AxisText& axis : ref.axes) {
      if (axis.pick >= 0)
        fail_at({axis.word.place}, text("where '", ref.word.name, "' is defined its dimensions ",
                                        "have names, not numbers"));
      if (!axis.bound.name.empty() && !is_parameter)
        fail_at({axis.bound.place},
                text("only a parameter has a largest length; '", ref.word.name, "' is none"));
      const int dim = dimension(in, axis.word);
      refuse_twice(ref, axis.word, names.contains(dim));
      names.push_back(dim);
      if (bounds) bounds->push_back(axis.bound.name.empty() ? -1 : dimension(in, axis.bound));
    }
    return names;
  }

  static void refuse_many(const RefText& ref) {
    size_t count = 0;
    for (const AxisText& axis : ref.axes) count += std::max<size_t>(1, axis.parts.size());
    if (count > most_dims)
      fail_at({ref.whole},
              text("a tensor has at most ", most_dims, " dimensions, this has ", count));
  }

  static void refuse_twice(const RefText& ref, const Word& word, bool twice) {
    if (twice)
      fail_at({word.place},
              text("'", word.name, "' stands twice in ", ref.word.name,
                   "[…]; a second dimension of the same size needs a name of its own"));
  }

  // ---- Values ---------------------------------------------------------------------------------

  int add_value(CheckedValue value) {
    if (out_.values.size() >= most_values)
      fail_at({value.place},
              text("the defs that this text calls come to more than ", most_values, " statements"));
    out_.values.push_back(std::move(value));
    return static_cast<int>(out_.values.size()) - 1;
  }

  // `value` under other names: `dims`, in its order.
  int renamed(int value, const std::string& name, const Place& place, const Names& names,
              bool watched = true) {
    CheckedValue v;
    v.kind = CheckedValue::Kind::same;
    v.name = name, v.place = place, v.dims = names, v.index = value, v.watched = watched;
    v.element = values(value).element;
    return add_value(std::move(v));
  }

  void define(Instance& in, const Word& word, int value) {
    in.values[word.name] = value;
    in.written[word.name] = word.place;
  }

  void check_new_name(Instance& in, const Word& word) {
    const auto before = in.written.find(word.name);
    if (before != in.written.end())
      fail_at({word.place, before->second}, text("'", word.name, "' is assigned twice"));
    const auto refuse = [&](const char* what) {
      fail_at({word.place}, text("a tensor cannot be called '", word.name, "': that is ", what));
    };
    if (find_builtin(word.name)) refuse("a function");
    for (const InitializerRow& row : initializers())
      if (row.name == word.name) refuse("an initialiser");
    if (in.program->find(word.name)) refuse("a def");
    if (in.dims.contains(word.name)) refuse("a dimension");
  }

  // ---- A def in the place of a call -----------------------------------------------------------

  int instantiate(Instance& in, const Arguments& arguments, const Place& place) {
    check_def_name(in);
    for (const Instance* outer = in.caller; outer; outer = outer->caller)
      if (outer->def == in.def) fail_at({place}, text("'", in.def->word.name, "' calls itself"));
    declare_dimensions(in);
    left_ = nullptr;
    define_arguments(in, arguments);
    read_where(in);
    open_dimensions(in);
    for (const auto& [arg, parameter] : in.starts) read_start(in, *arg, parameter);
    for (const StatementText& s : in.def->statements) statement(in, s);
    const int result = resolve_result(in);
    check_all_used(in);
    return result;
  }

  void check_def_name(const Instance& in) {
    const Word& word = in.def->word;
    if (find_builtin(word.name))
      fail_at({word.place}, text("a def cannot be called '", word.name, "': that is a function"));
  }

  // Inputs and parameters, then those that are inputs under other names; each is amended as soon as
  // it and the roles of its axes are known.
  void define_arguments(Instance& in, const Arguments& arguments) {
    const std::vector<ArgText>& args = in.def->args;
    for (size_t i = 0; i < args.size(); ++i)
      if (args[i].kind != ArgText::Kind::renamed) define_argument(in, args[i], arguments[i], i);
    assign_roles(in);
    for (const ArgText& arg : args)
      if (arg.kind != ArgText::Kind::renamed) amend(in, arg.ref.word.name, arg.ref.whole);
    for (const ArgText& arg : args) {
      if (arg.kind != ArgText::Kind::renamed) continue;
      check_new_name(in, arg.ref.word);
      define(in, arg.ref.word, same_as(in, arg, defined_dims(in, arg.ref, false, nullptr)));
      amend(in, arg.ref.word.name, arg.ref.whole);
    }
  }

  void define_argument(Instance& in, const ArgText& arg, int passed, size_t number) {
    check_new_name(in, arg.ref.word);
    CheckedValue v;
    v.name = in.prefix + arg.ref.word.name;
    v.place = arg.ref.whole;
    const bool is_parameter = arg.kind == ArgText::Kind::parameter;
    v.dims = defined_dims(in, arg.ref, is_parameter, is_parameter ? &v.bounds : nullptr);
    for (const AxisText& axis : arg.ref.axes) v.axis_places.push_back(axis.word.place);
    if (arg.kind == ArgText::Kind::integer) {
      v.element = Element::whole;
      v.below = dimension(in, arg.below);
    }
    if (passed >= 0) {
      define(in, arg.ref.word, take_argument(arg, passed, v, argument_places_[number]));
    } else if (is_parameter) {
      for (int i = 0; i < v.dims.size(); ++i)
        if (v.bounds[i] >= 0)
          out_.conditions.push_back({Condition::Kind::room,
                                     v.dims[i],
                                     {v.bounds[i]},
                                     0,
                                     v.axis_places[static_cast<size_t>(i)],
                                     {}});
      v.kind = CheckedValue::Kind::parameter;
      v.index = static_cast<int>(out_.parameters.size());
      const int value = add_value(std::move(v));
      out_.parameters.push_back({values(value).name, value, nullptr, {}, arg.fixed, arg.per_stack});
      in.starts.push_back({&arg, values(value).index});
      define(in, arg.ref.word, value);
    } else {
      v.kind = CheckedValue::Kind::input;
      v.index = static_cast<int>(out_.inputs.size());
      out_.input_names.push_back(arg.ref.word.name);
      out_.inputs.push_back(add_value(std::move(v)));
      define(in, arg.ref.word, out_.inputs.back());
    }
  }

  int same_as(Instance& in, const ArgText& arg, const Names& names) {
    const int other = resolve_plain(in, arg.same_as, "an input");
    if (arg.ref.axes.size() != arg.same_as.axes.size())
      fail_at({arg.ref.whole, arg.same_as.whole},
              text("'", arg.ref.word.name, "' has ", arg.ref.axes.size(), " dimensions, but '",
                   arg.same_as.word.name, "' has ", arg.same_as.axes.size()));
    for (int i = 0; i < names.size(); ++i) equate(names[i], values(other).dims[i], arg.ref.whole);
    if (!in.caller && arg.ref.word.name == "M") out_.self_only = true;
    return renamed(other, in.prefix + arg.ref.word.name, arg.ref.whole, names);
  }

  // The size of `inner` is that of `outer`.
  void equate(int inner, int outer, const Place& place) {
    if (inner == outer) return;
    dims(inner).arguments.push_back({outer, place});
    if (dims(inner).role == Role::none) dims(inner).role = dims(outer).role;
    out_.conditions.push_back({Condition::Kind::equal, inner, {outer}, 0, place, {}});
  }

  int take_argument(const ArgText& arg, int passed, const CheckedValue& v, const Place& place) {
    const Names given = values(passed).dims;
    if (given.size() != v.dims.size())
      fail_at({place, arg.ref.whole}, text("'", arg.ref.word.name, "' has ", v.dims.size(),
                                           " dimensions, but ", given.size(), " are passed"));
    const bool wants_whole = arg.kind == ArgText::Kind::integer;
    if (wants_whole && values(passed).element != Element::whole)
      fail_at({place, arg.ref.whole}, text("'", arg.ref.word.name, "' holds whole numbers, but ",
                                           describe(values(passed).element), " are passed"));
    for (int i = 0; i < given.size(); ++i) equate(v.dims[i], given[i], place);
    return renamed(passed, v.name, v.place, v.dims);
  }

  void read_where(Instance& in) {
    std::map<std::string, Place> seen;
    for (const WhereText& w : in.def->where) {
      const auto [before, fresh] = seen.try_emplace(w.word.name, w.word.place);
      if (!fresh)
        fail_at({w.word.place, before->second}, text("'", w.word.name, "' is given twice"));
      const int dim = in.dims.at(w.word.name);
      const Node value = quantity(in, w.value, "a size");
      if (w.value.kind == ExprText::Kind::dim && w.value.word.name == w.word.name)
        fail_at({w.value.place}, text("'", w.word.name, "' is given by itself"));
      dims(dim).fallback = {value};
      dims(dim).fallback_place = w.word.place;
    }
  }

  static bool is_in_arguments(const Def& def, const std::string& dim) {
    for (const ArgText& arg : def.args)
      for (const AxisText& axis : arg.ref.axes)
        if (axis.word.name == dim || axis.bound.name == dim) return true;
    return false;
  }

  // What neither the call nor a default decides is the calling def's of the same name.
  void open_dimensions(Instance& in) {
    if (!in.caller) return;
    std::set<std::string> merged;
    for (const StatementText& s : in.def->statements)
      for (const AxisText& axis : s.left.axes)
        if (!axis.parts.empty() && !is_in_arguments(*in.def, axis.word.name))
          merged.insert(axis.word.name);
    for (const auto& [name, dim] : in.dims) {
      const Dimension& d = dims(dim);
      const bool decided = !d.arguments.empty() || !d.fallback.empty() || merged.contains(name);
      if (decided) continue;
      const Place place = d.place;
      dims(dim).outer = outer_dimension(*in.caller, name, place);
    }
  }

  void read_start(Instance& in, const ArgText& arg, int parameter) {
    const ExprText& e = arg.init;
    const InitializerRow* row = nullptr;
    std::vector<std::string> names;
    for (const InitializerRow& r : initializers()) {
      names.push_back(r.name);
      if (r.name == e.word.name) row = &r;
    }
    if (!row)
      fail_at({e.word.place},
              text("unknown initialiser '", e.word.name, "'", suggestion(e.word.name, names)));
    if (!e.keys.empty()) fail_at({e.keys[0].key.place}, text(row->usage, " takes no names"));
    if (static_cast<int>(e.args.size()) != row->args)
      fail_at({e.word.place}, text("expected ", row->usage, ", got ", e.args.size(), " arguments"));
    CheckedParameter& p = out_.parameters[static_cast<size_t>(parameter)];
    p.start = row;
    for (const ExprText& a : e.args) p.args.push_back(quantity(in, a, "an initialiser's argument"));
  }

  // R5: X's first axis is the queries' sequence, M's the memory's. In a call the role comes with
  // what is passed; where one sequence is passed for both, it attends to itself.
  void assign_roles(Instance& in) {
    int n = -1, m = -1;
    bool is_renamed = false;
    for (const ArgText& arg : in.def->args) {
      if (arg.kind == ArgText::Kind::parameter || arg.ref.axes.empty()) continue;
      const auto at = in.dims.find(arg.ref.axes[0].word.name);
      const int first = at == in.dims.end() ? -1 : at->second;
      if (arg.ref.word.name == "X") n = first;
      if (arg.ref.word.name == "M") m = first, is_renamed = arg.kind == ArgText::Kind::renamed;
    }
    if (!in.caller) {
      if (n >= 0) dims(n).role = Role::query;
      if (m >= 0 && m != n) dims(m).role = Role::memory;
    } else if (n >= 0 && m >= 0 && n != m && dims(n).role != Role::none &&
               (is_renamed || dims(n).role == dims(m).role)) {
      dims(n).role = Role::query;
      dims(m).role = Role::memory;
    }
  }

  int resolve_result(Instance& in) { return resolve_plain(in, in.def->result, "the result"); }

  void check_all_used(Instance& in) {
    for (const WhereText& w : in.def->where)
      if (!in.mentioned.contains(w.word.name)) {
        std::vector<std::string> others = keys_of(in.dims);
        std::erase(others, w.word.name);
        fail_at({w.word.place}, text("the size '", w.word.name, "' is never used",
                                     suggestion(w.word.name, others)));
      }
    for (const ArgText& arg : in.def->args)
      if (arg.kind == ArgText::Kind::parameter && !in.used.contains(arg.ref.word.name))
        fail_at({arg.ref.word.place}, text("the parameter '", arg.ref.word.name,
                                           "' is never used: it would never learn"));
    for (const StatementText& s : in.def->statements)
      if (!in.used.contains(s.left.word.name))
        fail_at({s.left.word.place}, text("'", s.left.word.name, "' is never used"));
  }

  // ---- Statements -----------------------------------------------------------------------------

  void statement(Instance& in, const StatementText& s) {
    check_new_name(in, s.left.word);
    CheckedValue v;
    v.name = in.prefix + s.left.word.name;
    v.place = s.left.whole;
    v.dims = defined_dims(in, s.left, false, nullptr);
    v.names = merged_names(in, s.left);
    left_ = &s.left;
    if (const Callee callee = callee_of(in, s.right); callee.def) {
      call_statement(in, s, callee, v);
    } else {
      v.right = expression(in, s.right, v.names);
      v.element = v.right.element;
      check_name_count(v);
      define(in, s.left.word, add_value(std::move(v)));
    }
    amend(in, s.left.word.name, s.left.whole);
  }

  // The names on the left with h=(g s) written as g, s; h takes their product as its size.
  Names merged_names(Instance& in, const RefText& left) {
    Names names;
    for (const AxisText& axis : left.axes) {
      const int dim = in.dims.at(axis.word.name);
      Names parts;
      for (const Word& part : axis.parts) {
        parts.push_back(dimension(in, part));
        refuse_twice(left, part, names.contains(parts.back()));
        names.push_back(parts.back());
      }
      if (axis.parts.empty()) {
        refuse_twice(left, axis.word, names.contains(dim));
        names.push_back(dim);
      } else {
        const bool made_here = !is_in_arguments(*in.def, axis.word.name);
        if (made_here && dims(dim).product.empty()) dims(dim).product = parts;
        out_.conditions.push_back({Condition::Kind::product, dim, parts, 0, axis.word.place, {}});
      }
    }
    return names;
  }

  static void count_names(const Node& node, std::set<int>& names) {
    for (int name : node.names) names.insert(name);
    for (const Node& arg : node.args) count_names(arg, names);
  }
  static void check_name_count(const CheckedValue& v) {
    std::set<int> names;
    count_names(v.right, names);
    if (static_cast<int>(names.size()) > most_names)
      fail_at({v.place}, text("a statement has at most ", most_names, " names of dimensions, this ",
                              "has ", names.size()));
  }

  // ---- Calls of other defs --------------------------------------------------------------------

  struct Callee {
    const Def* def = nullptr;
    std::shared_ptr<const Program> program = {};
  };

  Callee callee_of(const Instance& in, const ExprText& e) {
    if (e.kind != ExprText::Kind::call || find_builtin(e.word.name)) return {};
    if (const Def* def = in.program->find(e.word.name)) return {def, in.program};
    if (!library_.find) return {};
    const std::shared_ptr<const Program> program = library_.find(e.word.name);
    if (!program) return {};
    const auto known = std::find(out_.sources.begin(), out_.sources.end(), program->source);
    if (known == out_.sources.end()) out_.sources.push_back(program->source);
    return {program->find(e.word.name), program};
  }

  void call_statement(Instance& in, const StatementText& s, const Callee& callee,
                      const CheckedValue& v) {
    const Arguments arguments = read_arguments(in, s.right, *callee.def);
    const int result =
        call(in, *callee.def, callee.program, v.name + ".", arguments, s.right.place, false);
    for (const AxisText& axis : s.left.axes)
      if (!axis.parts.empty())
        fail_at({axis.word.place},
                "the result of a def takes plain names; merge them in a "
                "statement of its own");
    if (values(result).dims.size() != v.dims.size())
      fail_at({s.left.whole, callee.def->result.whole},
              text("'", callee.def->word.name, "' returns ", values(result).dims.size(),
                   " dimensions, but the left has ", v.dims.size()));
    for (int i = 0; i < v.dims.size(); ++i)
      take_result(v.dims[i], values(result).dims[i],
                  s.left.axes[static_cast<size_t>(i)].word.place);
    define(in, s.left.word, renamed(result, v.name, v.place, v.dims));
  }

  void take_result(int dim, int given, const Place& place) {
    if (dim == given) return;
    dims(dim).results.push_back({given, place});
    if (dims(dim).role == Role::none) dims(dim).role = dims(given).role;
    out_.conditions.push_back({Condition::Kind::equal, dim, {given}, 0, place, {}});
  }

  Arguments read_arguments(Instance& in, const ExprText& e, const Def& def) {
    Arguments arguments(def.args.size(), -1);
    if (e.args.size() > def.args.size())
      fail_at(
          {e.args[def.args.size()].place, def.word.place},
          text("'", def.word.name, "' takes ", def.args.size(), " arguments, got ", e.args.size()));
    argument_places_.assign(def.args.size(), e.place);
    const auto pass = [&](size_t at, const ExprText& value) {
      const ArgText& arg = def.args[at];
      if (arg.kind == ArgText::Kind::renamed)
        fail_at({value.place, arg.ref.whole},
                text("'", arg.ref.word.name, "' is '", arg.same_as.word.name, "' in '",
                     def.word.name, "'; it cannot be passed"));
      if (value.kind != ExprText::Kind::ref)
        fail_at({value.place}, text("the arguments of '", def.word.name, "' are tensors with ",
                                    "their dimensions; give this a name first"));
      if (arguments[at] >= 0)
        fail_at({value.place}, text("'", arg.ref.word.name, "' is passed twice"));
      arguments[at] = resolve_plain(in, value.ref, "an argument");
      argument_places_[at] = value.place;
    };
    for (size_t i = 0; i < e.args.size(); ++i) pass(i, e.args[i]);
    for (const ExprText& key : e.keys) {
      std::vector<std::string> names;
      for (const ArgText& arg : def.args) names.push_back(arg.ref.word.name);
      const auto at = std::find(names.begin(), names.end(), key.key.name);
      if (at == names.end())
        fail_at({key.key.place}, text("'", def.word.name, "' has no argument '", key.key.name, "'",
                                      suggestion(key.key.name, names)));
      pass(static_cast<size_t>(at - names.begin()), key);
    }
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i] < 0 &&
          (def.args[i].kind == ArgText::Kind::input || def.args[i].kind == ArgText::Kind::integer))
        fail_at({e.word.place, def.args[i].ref.whole},
                text("'", def.word.name, "' needs its input '", def.args[i].ref.word.name, "'"));
    return arguments;
  }

  int call(Instance& in, const Def& def, const std::shared_ptr<const Program>& program,
           const std::string& prefix, const Arguments& arguments, const Place& place, bool amends) {
    if (amends) argument_places_.assign(def.args.size(), place);
    Instance& inner =
        instances_.emplace_back(Instance{&def, program, prefix, &in, amends || in.amends});
    const RefText* left = left_;
    const int result = instantiate(inner, arguments, place);
    left_ = left;
    return result;
  }

  // ---- Uses of tensors ------------------------------------------------------------------------

  int find_value(Instance& in, const Word& word) {
    const auto at = in.values.find(word.name);
    if (at != in.values.end()) {
      in.used.insert(word.name);
      return at->second;
    }
    for (const StatementText& s : in.def->statements)
      if (s.left.word.name == word.name)
        fail_at({word.place, s.left.word.place},
                text("'", word.name, "' is used before it is defined"));
    for (const ArgText& a : in.def->args)
      if (a.ref.word.name == word.name)
        fail_at({word.place, a.ref.word.place},
                text("'", word.name, "' is used before it is defined"));
    fail_at({word.place}, text("there is no tensor '", word.name, "'",
                               suggestion(word.name, keys_of(in.values))));
  }

  // R1: a use repeats the names of the definition in their order, or splits one by name=(a b).
  Node resolve(Instance& in, const RefText& ref) {
    Node node;
    node.kind = Node::Kind::value;
    node.place = ref.whole;
    node.constant = false;
    node.index = find_value(in, ref.word);
    const CheckedValue& v = values(node.index);
    node.element = v.element;
    refuse_many(ref);
    if (static_cast<int>(ref.axes.size()) != v.dims.size())
      fail_at({ref.whole, v.place}, text("'", ref.word.name, "' is used with ", ref.axes.size(),
                                         " dimensions, but it was defined with ", v.dims.size()));
    for (int i = 0; i < v.dims.size(); ++i) resolve_axis(in, ref, i, node);
    return node;
  }

  void resolve_axis(Instance& in, const RefText& ref, int i, Node& node) {
    const AxisText& axis = ref.axes[static_cast<size_t>(i)];
    const int defined = values(node.index).dims[i];
    Node::RefAxis use;
    if (axis.pick >= 0) {
      use.pick = axis.pick;
      node.plain = false;
      out_.conditions.push_back(
          {Condition::Kind::element, defined, {}, axis.pick, axis.word.place, {}});
    } else {
      if (!axis.bound.name.empty())
        fail_at({axis.bound.place},
                "a largest length stands where a parameter is defined, not "
                "where it is used");
      check_axis_name(in, ref, i, axis, defined);
      for (const Word& part : axis.parts) use.parts.push_back(dimension(in, part));
      if (axis.parts.empty()) {
        use.parts.push_back(defined);
      } else {
        node.plain = false;
        out_.conditions.push_back(
            {Condition::Kind::product, defined, use.parts, 0, axis.word.place, {}});
      }
      for (int k = 0; k < use.parts.size(); ++k) {
        const Word& word = axis.parts.empty() ? axis.word : axis.parts[static_cast<size_t>(k)];
        refuse_twice(ref, word, node.names.contains(use.parts[k]));
        node.names.push_back(use.parts[k]);
      }
    }
    node.axes.push_back(use);
  }

  void check_axis_name(Instance& in, const RefText& ref, int i, const AxisText& axis, int defined) {
    const auto at = in.dims.find(axis.word.name);
    if (at != in.dims.end() && at->second == defined) return;
    const CheckedValue& v = values(node_value(in, ref));
    fail_at({axis.word.place, v.place},
            text("dimension ", i + 1, " of '", ref.word.name, "' is '", own_name(in, defined),
                 "', not '", axis.word.name, "'; another name is given as ", own_name(in, defined),
                 "=(", axis.word.name, ")"));
  }
  static int node_value(const Instance& in, const RefText& ref) {
    return in.values.at(ref.word.name);
  }
  std::string own_name(const Instance& in, int dim) {
    return dims(dim).name.substr(in.prefix.size());
  }

  // A tensor as it was defined: the result, an argument.
  int resolve_plain(Instance& in, const RefText& ref, const char* what) {
    const Node node = resolve(in, ref);
    if (!node.plain)
      fail_at({ref.whole}, text(what, " is written with the names it was defined with"));
    return node.index;
  }

  // ---- Expressions ----------------------------------------------------------------------------

  // A number that sizes decide.
  Node quantity(Instance& in, const ExprText& e, const char* what) {
    const Node node = expression(in, e, {});
    if (!node.constant)
      fail_at({e.place}, text(what, " is made of numbers and dimensions, not of tensors"));
    return node;
  }

  // What an expression refers to. Its names are among `expected`, the names on the left (R2).
  Node expression(Instance& in, const ExprText& e, const Names& expected) {
    Node node;
    node.place = e.place;
    switch (e.kind) {
      case ExprText::Kind::number:
        node.number = e.number;
        node.element = e.whole ? Element::whole : Element::real;
        return node;
      case ExprText::Kind::dim:
        node.kind = Node::Kind::size;
        node.index = dimension_or_tensor(in, e.word);
        node.element = Element::whole;
        return node;
      case ExprText::Kind::causal:
        node.kind = Node::Kind::causal;
        node.element = Element::whole;
        return node;
      case ExprText::Kind::ref:
        node = resolve(in, e.ref);
        check_expected(in, e.ref, node, expected);
        return node;
      case ExprText::Kind::operation:
        return operation(in, e, expected);
      case ExprText::Kind::call:
        return function(in, e, expected);
      case ExprText::Kind::group:
        fail_at({e.place},
                "a list of dimensions has no value; it belongs to a key like into=(o w)");
    }
    return node;
  }

  int dimension_or_tensor(Instance& in, const Word& word) {
    if (!in.dims.contains(word.name) && in.values.contains(word.name))
      fail_at({word.place}, text("'", word.name, "' is a tensor: write it with its dimensions"));
    return dimension(in, word);
  }

  void check_expected(Instance& in, const RefText& ref, const Node& node, const Names& expected) {
    for (int k = 0; k < node.names.size(); ++k) {
      if (expected.contains(node.names[k])) continue;
      if (!left_) fail_at({ref.whole}, "only numbers and dimensions can stand here");
      const std::string name = own_name(in, node.names[k]);
      fail_at({place_of(in, ref, node.names[k]), left_->whole},
              text("'", name, "' is a dimension of '", ref.word.name,
                   "' but not of the left; only ", "einsum and reductions drop a dimension"));
    }
  }

  Place place_of(Instance& in, const RefText& ref, int dim) {
    const auto is = [&](const Word& word) {
      const auto at = in.dims.find(word.name);
      return at != in.dims.end() && at->second == dim;
    };
    for (const AxisText& axis : ref.axes) {
      for (const Word& part : axis.parts)
        if (is(part)) return part.place;
      if (is(axis.word)) return axis.word.place;
    }
    return ref.whole;
  }

  // The names of all of `args`, in the order of the left.
  static Names joined_names(const std::vector<Node>& args, const Names& expected) {
    Names names;
    for (int name : expected)
      for (const Node& arg : args)
        if (arg.names.contains(name) && !names.contains(name)) names.push_back(name);
    return names;
  }

  Node operation(Instance& in, const ExprText& e, const Names& expected) {
    Node node;
    node.kind = Node::Kind::operation;
    node.place = e.place;
    node.op = e.op;
    for (const ExprText& arg : e.args) node.args.push_back(expression(in, arg, expected));
    node.names = joined_names(node.args, expected);
    for (const Node& arg : node.args) node.constant &= arg.constant;
    node.element = result_of(node);
    return node;
  }

  static void need(const Node& node, Element element, const std::string& who) {
    const bool number_as_truth = element == Element::truth && node.element != Element::truth;
    const bool real_as_whole = element == Element::whole && node.element == Element::real;
    if (number_as_truth || real_as_whole)
      fail_at({node.place},
              text(who, " needs ", describe(element), ", but this gives ", describe(node.element)));
  }

  // R13. Whole numbers stay whole under + - * // %; truth counts as 0 or 1.
  static Element result_of(const Node& node) {
    const std::string who = text("'", symbol(node.op), "'");
    switch (node.op) {
      case Operator::either:
      case Operator::both:
      case Operator::negation:
        for (const Node& arg : node.args) need(arg, Element::truth, who);
        return Element::truth;
      case Operator::less:
      case Operator::less_equal:
      case Operator::greater:
      case Operator::greater_equal:
      case Operator::equal:
      case Operator::unequal:
        return Element::truth;
      case Operator::divide:
        return Element::real;
      case Operator::floor_divide:
      case Operator::modulo:
        for (const Node& arg : node.args) need(arg, Element::whole, who);
        return Element::whole;
      case Operator::power:
        if (!node.args[1].constant)
          fail_at({node.args[1].place}, "an exponent is a number, not a tensor");
        return node.args[0].constant && node.args[1].kind == Node::Kind::number &&
                       node.args[0].element == Element::whole
                   ? node.args[1].element
                   : Element::real;
      default:
        for (const Node& arg : node.args)
          if (arg.element == Element::real) return Element::real;
        return Element::whole;
    }
  }

  // ---- Functions ------------------------------------------------------------------------------

  Node function(Instance& in, const ExprText& e, const Names& expected) {
    const Builtin* row = find_builtin(e.word.name);
    if (!row) unknown_function(in, e);
    Node node;
    node.kind = Node::Kind::call;
    node.place = e.word.place;
    node.builtin = row;
    node.constant = false;
    check_arguments(e, *row);
    read_keys(in, e, *row, expected, node);
    switch (row->form) {
      case Form::einsum:
        einsum(in, e, expected, node);
        break;
      case Form::each:
        each(in, e, expected, node);
        break;
      case Form::along:
        along(in, e, expected, node);
        break;
      case Form::reduction:
        reduction(in, e, expected, node);
        break;
      case Form::positions:
      case Form::visible:
        of_dimensions(in, e, expected, node);
        break;
      case Form::gather:
        gather(in, e, expected, node);
        break;
      case Form::concat:
        concat(in, e, expected, node);
        break;
    }
    return node;
  }

  [[noreturn]] void unknown_function(const Instance& in, const ExprText& e) {
    if (callee_of(in, e).def)
      fail_at({e.word.place}, text("the call of a def is the whole right-hand side of a statement; "
                                   "give '",
                                   e.word.name, "(…)' a name first"));
    std::vector<std::string> names = library_.names;
    for (const Builtin& row : builtins()) names.push_back(row.name);
    for (const Def& def : in.program->defs) names.push_back(def.word.name);
    for (const InitializerRow& row : initializers())
      if (row.name == e.word.name)
        fail_at({e.word.place}, text("'", e.word.name, "' is how a parameter starts; it stands in ",
                                     "the arguments of a def"));
    fail_at({e.word.place},
            text("unknown function '", e.word.name, "'", suggestion(e.word.name, names)));
  }

  static void check_arguments(const ExprText& e, const Builtin& row) {
    const int count = static_cast<int>(e.args.size());
    if (count >= row.least && count <= row.most) return;
    const std::string need =
        row.least == row.most ? text(row.least) : text(row.least, " to ", row.most);
    fail_at({e.word.place}, text("expected ", row.usage, " with ", need, " argument",
                                 row.most == 1 ? "" : "s", ", got ", count));
  }

  void read_keys(Instance& in, const ExprText& e, const Builtin& row, const Names& expected,
                 Node& node) {
    std::set<std::string> seen;
    for (const ExprText& key : e.keys) {
      const std::string& name = key.key.name;
      if (!seen.insert(name).second) fail_at({key.key.place}, text("'", name, "' is given twice"));
      if (row.dim_key && name == row.dim_key) {
        if (key.kind != ExprText::Kind::dim)
          fail_at({key.place}, text("'", name, "' is one dimension, by its name"));
        node.dim = dimension(in, key.word);
        dim_place_ = key.place;
      } else if (row.takes_mask && name == "mask") {
        node.mask.push_back(expression(in, key, expected));
        need(node.mask[0], Element::truth, "mask=");
        if (node.mask[0].constant) fail_at({key.place}, "a mask is a tensor of truth values");
      } else {
        std::vector<std::string> names;
        if (row.dim_key) names.push_back(row.dim_key);
        if (row.takes_mask) names.push_back("mask");
        fail_at({key.key.place}, text("'", row.name, "' has no '", name, "='",
                                      suggestion(name, names), "; it is ", row.usage));
      }
    }
    if (row.dim_key && row.dim_required && node.dim < 0)
      fail_at({e.word.place}, text("'", row.name, "' needs ", row.dim_key, "=: it is ", row.usage));
  }

  Node tensor_argument(Instance& in, const ExprText& e, const Builtin& row) {
    if (e.kind != ExprText::Kind::ref)
      fail_at({e.place}, text("'", row.name, "' takes tensors with their dimensions; give this a ",
                              "name in a statement of its own"));
    return resolve(in, e.ref);
  }

  // The result has exactly the expected names, and each is in an operand (R2).
  void einsum(Instance& in, const ExprText& e, const Names& expected, Node& node) {
    for (const ExprText& arg : e.args) node.args.push_back(tensor_argument(in, arg, *node.builtin));
    for (int name : expected) {
      const bool found = std::any_of(node.args.begin(), node.args.end(),
                                     [&](const Node& arg) { return arg.names.contains(name); });
      if (!found)
        fail_at({place_of(in, *left_, name), e.place},
                text("'", own_name(in, name), "' is on the left but in no operand of einsum"));
    }
    node.names = expected;
  }

  void each(Instance& in, const ExprText& e, const Names& expected, Node& node) {
    node.constant = true;
    for (const ExprText& arg : e.args) {
      node.args.push_back(expression(in, arg, expected));
      node.constant &= node.args.back().constant;
    }
    const bool is_select = std::string_view(node.builtin->name) == "select";
    if (is_select) need(node.args[0], Element::truth, "the first argument of select");
    node.names = joined_names(node.args, expected);
    node.element = node.builtin->result;
    if (!node.builtin->keeps_element) return;
    node.element = Element::whole;
    for (size_t i = is_select ? 1 : 0; i < node.args.size(); ++i)
      if (node.args[i].element == Element::real) node.element = Element::real;
    if (is_select && node.args[1].element == Element::truth &&
        node.args[2].element == Element::truth)
      node.element = Element::truth;
  }

  void along(Instance& in, const ExprText& e, const Names& expected, Node& node) {
    node.args.push_back(expression(in, e.args[0], expected));
    if (node.args[0].constant)
      fail_at({e.args[0].place}, text("'", node.builtin->name, "' needs a tensor"));
    node.names = node.args[0].names;
    if (node.dim >= 0 && !node.names.contains(node.dim))
      fail_at({dim_place_, e.args[0].place},
              text("'", own_name(in, node.dim), "' is not a dimension of what '",
                   node.builtin->name, "' is given"));
    if (!node.mask.empty() && !contains_all(node.names, node.mask[0].names))
      fail_at({node.mask[0].place, e.args[0].place},
              "the mask has a dimension that what it masks lacks");
    if (node.builtin->takes_mask) node.takes_call_mask = takes_call_mask(node);
    out_.takes_mask |= node.takes_call_mask;
  }

  // R6: where one of the two sequence axes of a tensor that has both is reduced.
  bool takes_call_mask(const Node& node) {
    bool query = false, memory = false;
    for (int name : node.names) {
      query |= dims(name).role == Role::query;
      memory |= dims(name).role == Role::memory;
    }
    return query && memory && dims(node.dim).role != Role::none;
  }

  void reduction(Instance& in, const ExprText& e, const Names& expected, Node& node) {
    node.args.push_back(tensor_argument(in, e.args[0], *node.builtin));
    const Node& x = node.args[0];
    if (!x.names.contains(node.dim))
      fail_at({dim_place_, e.args[0].place},
              text("'", own_name(in, node.dim), "' is not a dimension of what is reduced"));
    if (node.builtin->argument == Element::truth) need(x, Element::truth, node.builtin->name);
    for (int name : x.names)
      if (name != node.dim) node.names.push_back(name);
    refuse_unexpected(in, e, node.names, expected);
    node.element = node.builtin->keeps_element ? x.element : node.builtin->result;
    if (std::string_view(node.builtin->name) == "sum" && x.element == Element::truth)
      node.element = Element::whole;
  }

  void refuse_unexpected(Instance& in, const ExprText& e, const Names& names,
                         const Names& expected) {
    for (int name : names)
      if (!left_) fail_at({e.word.place}, "only numbers and dimensions can stand here");
      else if (!expected.contains(name))
        fail_at({e.word.place, left_->whole}, text("'", own_name(in, name), "' is a dimension of ",
                                                   e.word.name, "(…) but not of the left"));
  }

  void of_dimensions(Instance& in, const ExprText& e, const Names& expected, Node& node) {
    for (const ExprText& arg : e.args) {
      if (arg.kind != ExprText::Kind::dim)
        fail_at({arg.place}, text("expected ", node.builtin->usage, ": a dimension, by its name"));
      const int dim = dimension_or_tensor(in, arg.word);
      if (node.names.contains(dim)) fail_at({arg.place}, "the same dimension twice");
      node.names.push_back(dim);
      if (node.builtin->form == Form::visible && dims(dim).role == Role::none)
        fail_at({arg.place}, text("'", arg.word.name, "' is not a sequence axis: the call's mask ",
                                  "is over the first axes of X and M"));
    }
    refuse_unexpected(in, e, node.names, expected);
    node.element = node.builtin->result;
    if (node.builtin->form != Form::visible) return;
    if (node.names.size() == 2) {
      if (dims(node.names[0]).role == dims(node.names[1]).role)
        fail_at({e.place}, "the call's mask is over queries and memory, visible(n, m)");
      out_.takes_mask = true;
    }
    out_.takes_padding = true;
  }

  void gather(Instance& in, const ExprText& e, const Names& expected, Node& node) {
    node.args.push_back(tensor_argument(in, e.args[0], *node.builtin));
    node.args.push_back(expression(in, e.args[1], expected));
    const Node &table = node.args[0], &at = node.args[1];
    need(at, Element::whole, "the second argument of gather");
    if (at.constant) fail_at({at.place}, "a fixed element is picked by its number, as in a[0, h]");
    if (!table.names.contains(node.dim))
      fail_at({dim_place_, e.args[0].place},
              text("'", own_name(in, node.dim), "' is not a dimension of what is gathered from"));
    if (at.names.contains(node.dim))
      fail_at({dim_place_, e.args[1].place},
              text("'", own_name(in, node.dim), "' is replaced, so the positions cannot have it"));
    for (int name : expected)
      if ((table.names.contains(name) && name != node.dim) || at.names.contains(name))
        node.names.push_back(name);
    for (int name : table.names)
      if (name != node.dim && !expected.contains(name)) refuse_unexpected(in, e, {name}, expected);
    node.element = table.element;
  }

  void concat(Instance& in, const ExprText& e, const Names& expected, Node& node) {
    Names shared;
    for (const ExprText& arg : e.args) {
      node.args.push_back(tensor_argument(in, arg, *node.builtin));
      if (node.args.back().names.size() != node.args[0].names.size())
        fail_at({arg.place, e.args[0].place}, "what is joined has as many dimensions each");
      if (node.args.back().element != node.args[0].element)
        fail_at({arg.place, e.args[0].place}, "what is joined has elements of one kind");
    }
    // Each operand's own axis is the one whose name the left lacks.
    for (size_t i = 0; i < node.args.size(); ++i) {
      Names own, rest;
      for (int name : node.args[i].names)
        (expected.contains(name) && name != node.dim ? rest : own).push_back(name);
      if (own.size() != 1)
        fail_at({e.args[i].place, left_ ? left_->whole : e.place},
                text("an operand of concat has one dimension of its own, this has ", own.size()));
      if (i == 0) shared = rest;
      if (!contains_all(shared, rest) || !contains_all(rest, shared))
        fail_at({e.args[i].place, e.args[0].place}, "what is joined shares all other dimensions");
    }
    if (!expected.contains(node.dim))
      fail_at({dim_place_, left_ ? left_->whole : e.place},
              text("'", own_name(in, node.dim), "' is not a dimension of the left"));
    for (int name : expected)
      if (name == node.dim || shared.contains(name)) node.names.push_back(name);
    node.element = node.args[0].element;
  }

  Checked out_;
  const Library& library_;
  const Def* root_ = nullptr;
  std::vector<Amendment> amendments_;
  std::deque<Instance> instances_;      // their addresses stay
  const RefText* left_ = nullptr;       // of the statement that is read
  Place dim_place_;                     // of the key that names the special dimension
  std::vector<Place> argument_places_;  // of the call that is read
};

}  // namespace

const Def& main_def(const Program& program) {
  for (const Def& def : program.defs)
    if (!Checker::is_called(program, def.word.name)) return def;
  return program.defs[0];
}

Checked check(const Program& program, const std::vector<Program>& amendments,
              const Library& library) {
  const auto shared = std::make_shared<const Program>(program);
  const Def& main = main_def(*shared);
  Checked checked = Checker(amendments, library).run(shared, main);
  // What nothing calls must be right as well.
  for (const Def& def : shared->defs)
    if (&def != &main && !Checker::is_called(*shared, def.word.name))
      Checker({}, library).run(shared, def);
  return checked;
}

int Checked::find_dimension(const std::string& name) const {
  for (size_t i = 0; i < dimensions.size(); ++i)
    if (dimensions[i].name == name) return static_cast<int>(i);
  return -1;
}

int Checked::find_value(const std::string& name) const {
  for (size_t i = values.size(); i-- > 0;)  // an amended tensor comes after what it amends
    if (values[i].name == name) return static_cast<int>(i);
  return -1;
}

}  // namespace tete
