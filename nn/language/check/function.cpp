// Calls of functions: the row, the number of arguments, the keys. Each row has a further check of
// its own, in nn/language/builtins/.
#include "nn/language/check/reading.hpp"

namespace tete {

namespace {

void check_arguments(const ExprText& e, const Builtin& row) {
  const int count = static_cast<int>(e.args.size());
  const auto [least, most] = row.arguments;
  if (count >= least && count <= most) return;
  const std::string need = least == most ? text(least) : text(least, " to ", most);
  fail_at({e.word.place}, "expected ", row.usage, " with ", need, " argument", most == 1 ? "" : "s",
          ", got ", count, count > most && row.elementwise ? "; elementwise there is " : "",
          count > most && row.elementwise ? row.elementwise : "");
}

// The name with the fewest letters changed, and those that are a part of `word` or the reverse.
std::string near_names(const std::string& word, const std::vector<std::string>& names) {
  constexpr size_t most = 3, least_letters = 3;
  std::vector<std::string> near{nearest(word, names)};
  if (near[0].empty()) near.clear();
  for (const std::string& name : names) {
    const bool is_part = (name.size() >= least_letters && word.find(name) != std::string::npos) ||
                         (word.size() >= least_letters && name.find(word) != std::string::npos);
    if (is_part && near.size() < most && std::find(near.begin(), near.end(), name) == near.end())
      near.push_back(name);
  }
  const auto quoted = [](const std::string& name) { return "'" + name + "'"; };
  return near.empty() ? "" : text("; did you mean ", list_of(near, quoted, " or "), "?");
}

}  // namespace

Node Reading::call(const ExprText& e) {
  Node node;
  node.kind = NodeKind::call;
  node.place = e.word.place;
  node.builtin = find_builtin(e.word.name);
  if (!node.builtin) unknown_function(e);
  node.constant = false;
  check_arguments(e, *node.builtin);
  read_keys(e, node);
  node.builtin->check(*this, e, node);
  return node;
}

void Reading::unknown_function(const ExprText& e) const {
  if (in.callee(e).def)
    fail_at({e.word.place},
            "the call of a def is the whole right-hand side of a statement; "
            "give '",
            e.word.name, "(…)' a name first");
  if (find_named(e.word.name, initializers()))
    fail_at({e.word.place}, "'", e.word.name, "' is how a parameter starts; it stands in ",
            "the arguments of a def");
  std::vector<std::string> names = in.draft.library.names;
  for (const Builtin& row : builtins()) names.emplace_back(row.name);
  for (const Def& def : in.program->defs) names.push_back(def.word.name);
  const std::string near = near_names(e.word.name, names);
  fail_at({e.word.place}, "unknown function '", e.word.name, "'",
          near.empty() ? "; 'tete functions' lists them" : near);
}

void Reading::read_keys(const ExprText& e, Node& node) {
  const Builtin& function = *node.builtin;
  node.keys.resize(function.keys.size());
  std::set<std::string> seen;
  const auto read = [&](const ExprText& key, size_t i) {
    Reading inner = *this;  // what is reduced has the reduced dimension besides
    if (left && node.dim() >= 0 && !expected.contains(node.dim()))
      inner.expected.push_back(node.dim());
    inner.read_key(key, function.keys[i], node.keys[i]);
  };
  std::vector<std::pair<const ExprText*, size_t>> values;  // read after the dimensions
  for (const ExprText& key : e.keys) {
    const std::string& name = key.key.name;
    if (!seen.insert(name).second) fail_at({key.key.place}, "'", name, "' is given twice");
    const KeyRow* const row = find_named(name, function.keys);
    if (!row)
      fail_at({key.key.place}, "'", function.name, "' has no '", name, "='",
              suggestion(name, names_of_rows(function.keys)), "; it is ", function.usage);
    const auto i = static_cast<size_t>(row - function.keys.data());
    if (row->kind == KeyKind::dim || row->kind == KeyKind::dims) read(key, i);
    else values.push_back({&key, i});
  }
  for (const auto& [key, i] : values) read(*key, i);
  for (const KeyRow& row : function.keys)
    if (row.required && !seen.contains(row.name))
      fail_at({e.word.place}, "'", function.name, "' needs ", row.name, "=: it is ",
              function.usage);
}

void Reading::read_key(const ExprText& value, const KeyRow& row, Node::Key& key) {
  key.place = value.place;
  switch (row.kind) {
    case KeyKind::dim:
      if (value.kind != ExprKind::dim)
        fail_at({value.place}, row.name, "= is one dimension, by its name, as in ", row.name, "=d");
      key.dim = in.dimension(value.word);
      break;
    case KeyKind::dims:
      if (value.kind != ExprKind::group)
        fail_at({value.place}, row.name, "= is a list of dimensions, as in ", row.name, "=(o w)");
      if (value.group.size() > size_t{most_dims})
        fail_at({value.place}, row.name, "= has at most ", most_dims, " dimensions, this has ",
                value.group.size());
      for (const Word& word : value.group) key.dims.push_back(in.dimension(word));
      break;
    case KeyKind::number:
      key.value.push_back(quantity(in, value, text(row.name, "=").c_str()));
      break;
    case KeyKind::real:
      key.value.push_back(expression(value));
      break;
    case KeyKind::truth:
      key.value.push_back(expression(value));
      need(key.value[0], Element::truth, text(row.name, "="));
      if (key.value[0].constant)
        fail_at({value.place}, row.name, "= is a tensor of truth values, but this is one number");
      break;
  }
}

// ---- For the checks of functions --------------------------------------------------------------

Node Reading::tensor(const ExprText& e, const Builtin& who) {
  if (e.kind != ExprKind::ref)
    fail_at({e.place}, "'", who.name, "' takes tensors with their dimensions; give this a ",
            "name in a statement of its own");
  return in.resolve(e.ref);
}

int Reading::dimension_argument(const ExprText& e, const Builtin& who) {
  if (e.kind != ExprKind::dim)
    fail_at({e.place}, "expected ", who.usage, ": a dimension, by its name");
  return dimension(e.word);
}

void Reading::refuse_unexpected(const ExprText& e, const Names& names) const {
  for (int name : names)
    if (!left)
      fail_at({e.word.place}, "only numbers and dimensions can stand here; '", e.word.name,
              "' gives a tensor");
    else if (!expected.contains(name))
      fail_at({e.word.place, left->whole}, "'", in.own_name(name), "' is a dimension of ",
              e.word.name, "(…) but not of the left");
}

void Reading::need_dim(const Node& call, const Node& arg, const std::string& what) const {
  if (!arg.names.contains(call.dim()))
    fail_at({call.keys[0].place, arg.place}, "'", in.own_name(call.dim()),
            "' is not a dimension of ", what);
}

}  // namespace tete
