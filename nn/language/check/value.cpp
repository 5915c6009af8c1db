// Tensors: the meaning of a name in a def, and the ways in which a use may be written.
#include "nn/language/check/draft.hpp"

namespace tete {

namespace {

// Limits of a text whose defs call defs that call defs …
constexpr size_t most_values = 10'000, most_dimensions = 10'000, most_parts = 50'000;

void count(size_t& what, size_t most, const char* name, const Place& place) {
  if (what++ == most)
    fail_at({place}, "with the defs that it calls written out, this text comes to more than ", most,
            " ", name);
}

}  // namespace

int Draft::add(CheckedValue value) {
  count(extent.values, most_values, "statements", value.place);
  program.values.push_back(std::move(value));
  return static_cast<int>(program.values.size()) - 1;
}

int Draft::add(Dimension dimension) {
  count(extent.dimensions, most_dimensions, "dimensions", dimension.place);
  program.dimensions.push_back(std::move(dimension));
  return static_cast<int>(program.dimensions.size()) - 1;
}

void Draft::count_part(const Place& place) {
  count(extent.parts, most_parts, "tensors, numbers and operations", place);
}

int Draft::renamed(int value, const std::string& name, const Place& place, const Names& dims) {
  CheckedValue v;
  v.kind = ValueKind::same;
  v.name = name, v.place = place, v.dims = dims, v.index = value;
  v.element = this->value(value).element;
  return add(std::move(v));
}

void Instance::define(const Word& word, int value) {
  values[word.name] = value;
  written[word.name] = word.place;
}

void Instance::check_new_name(const Word& word) const {
  const auto before = written.find(word.name);
  if (before != written.end())
    fail_at({word.place, before->second}, "'", word.name, "' is assigned twice");
  const auto refuse = [&](const char* what) {
    fail_at({word.place}, "a tensor cannot be called '", word.name, "': that is ", what);
  };
  if (find_builtin(word.name)) refuse("a function");
  if (find_named(word.name, initializers())) refuse("an initialiser");
  if (program->find(word.name)) refuse("a def");
  if (dims.contains(word.name)) refuse("a dimension");
}

int Instance::find_value(const Word& word) {
  const auto at = values.find(word.name);
  if (at != values.end()) {
    used.insert(word.name);
    return at->second;
  }
  for (const StatementText& s : def.statements)
    if (s.is_loss && s.left.word.name == word.name)
      fail_at({word.place, s.left.word.place}, "'", word.name,
              "' is a term of the loss, which no statement reads");
  const auto refuse_early = [&](const Word& defined) {
    if (defined.name == word.name)
      fail_at({word.place, defined.place}, "'", word.name, "' is used before it is defined");
  };
  for (const StatementText& s : def.statements) refuse_early(s.left.word);
  for (const ArgText& a : def.args) refuse_early(a.ref.word);
  fail_at({word.place}, "there is no tensor '", word.name, "'", choice(word.name, keys_of(values)));
}

Node Instance::resolve(const RefText& ref) {
  Node node;
  node.kind = NodeKind::value;
  node.place = ref.whole;
  node.constant = false;
  node.index = find_value(ref.word);
  draft.count_part(ref.whole);
  const CheckedValue& v = draft.value(node.index);
  node.element = v.element;
  refuse_many(ref);
  if (static_cast<int>(ref.axes.size()) != v.dims.size())
    fail_at({ref.whole, v.place}, "'", ref.word.name, "' is used with ",
            counted(std::ssize(ref.axes), "dimension"), ", but it was defined with ",
            v.dims.size());
  for (int i = 0; i < v.dims.size(); ++i) resolve_axis(ref, i, node);
  return node;
}

void Instance::resolve_axis(const RefText& ref, int i, Node& node) {
  const AxisText& axis = ref.axes[i];
  const int defined = draft.value(node.index).dims[i];
  std::vector<Condition>& conditions = draft.program.conditions;
  Node::RefAxis use;
  if (axis.pick >= 0) {
    use.pick = axis.pick;
    node.plain = false;
    conditions.push_back({ConditionKind::element, defined, {}, axis.pick, axis.word.place});
  } else {
    if (!axis.bound.name.empty())
      fail_at({axis.bound.place},
              "a largest length stands where a parameter is defined, not where it is used");
    check_axis_name(ref, i, node.index);
    for (const Word& part : axis.parts) use.parts.push_back(dimension(part));
    if (axis.parts.empty()) {
      use.parts.push_back(defined);
    } else {
      node.plain = false;
      conditions.push_back({ConditionKind::product, defined, use.parts, 0, axis.word.place});
      if (use.parts.size() == 1) draft.take_sequence(use.parts[0], defined, axis.word.place);
    }
    for (int k = 0; k < use.parts.size(); ++k) {
      const Word& word = axis.parts.empty() ? axis.word : axis.parts[k];
      refuse_twice(ref, word, node.names.contains(use.parts[k]));
      node.names.push_back(use.parts[k]);
    }
  }
  node.axes.push_back(use);
}

void Instance::check_axis_name(const RefText& ref, int i, int value) const {
  const CheckedValue& v = draft.value(value);
  const Word& word = ref.axes[i].word;
  const auto at = dims.find(word.name);
  if (at != dims.end() && at->second == v.dims[i]) return;
  const std::string name = own_name(v.dims[i]);
  fail_at({word.place, v.place}, "dimension ", i + 1, " of '", ref.word.name, "' is '", name,
          "', not '", word.name, "'; another name is given as ", name, "=(", word.name, ")");
}

int Instance::resolve_plain(const RefText& ref, const char* what) {
  const Node node = resolve(ref);
  if (!node.plain) fail_at({ref.whole}, what, " is written with the names it was defined with");
  return node.index;
}

}  // namespace tete
