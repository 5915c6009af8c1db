#include "tools/inspect/roles.hpp"

#include <algorithm>

#include "tools/inspect/ties.hpp"

namespace tete {

namespace {

int axis_of_query(const Checked& program, const Names& names) {
  for (int name : names)
    if (program.dimensions[name].role == Role::query) return name;
  return -1;
}

// The value by which values are summed, and its axes; row is -1 where there is none.
struct Weights {
  int value = -1, row = -1, column = -1;
  bool own_mask = false;
  std::vector<bool> sources, results;  // by value; of several softmaxes the results of any
};

class WeightsFinder {
 public:
  explicit WeightsFinder(const Checked& program) : program_(program) {}

  Weights find() {
    find_softmaxes();
    if (softmaxes_.empty()) find_weighing();
    if (w_.row >= 0) find_value();
    return std::move(w_);
  }

 private:
  int count() const { return static_cast<int>(program_.values.size()); }

  // Those that take the call's mask, or else all over queries, with the columns of the last.
  void find_softmaxes() {
    bool masked = false;
    for (int i = 0; i < count(); ++i)
      visit(program_.values[i].right, [&](const Node& node) {
        if (!calls(node, "softmax")) return;
        const int query = axis_of_query(program_, node.names);
        if (query < 0 || query == node.dim() || (masked && !node.takes_call_mask)) return;
        if (node.takes_call_mask && !masked) softmaxes_.clear();
        masked = node.takes_call_mask;
        softmaxes_.push_back(i);
        w_.row = query, w_.column = node.dim();
        w_.own_mask = !node.keys[1].value.empty();
      });
  }

  // Without a softmax: what is multiplied with values of the memory, and summed over it.
  void find_weighing() {
    for (int i = 0; i < count(); ++i)
      visit(program_.values[i].right, [&](const Node& node) {
        if (!node.builtin || !node.builtin->contracts) return;
        const int query = axis_of_query(program_, node.names);
        if (query < 0 || node.args.size() < 2) return;
        for (const Node& arg : node.args)
          for (int name : arg.names)
            if (program_.dimensions[name].role == Role::memory && !node.names.contains(name) &&
                arg.names.contains(query) && is_in_others(node, arg, name))
              visit(arg, [&](const Node& used) { use_as_weights(used, query, name); });
      });
  }
  static bool is_in_others(const Node& node, const Node& arg, int name) {
    return std::any_of(node.args.begin(), node.args.end(), [&](const Node& other) {
      return &other != &arg && other.names.contains(name);
    });
  }
  void use_as_weights(const Node& used, int query, int column) {
    if (used.kind != NodeKind::value || program_.is_argument(used.index)) return;
    if (!used.names.contains(query) || !used.names.contains(column)) return;
    w_.value = used.index, w_.row = query, w_.column = column;
  }

  // The first value that all softmaxes lead to; the last of them, if none does.
  void find_value() {
    if (!softmaxes_.empty()) w_.value = softmaxes_.back();
    w_.results.assign(program_.values.size(), false);
    std::vector<bool> made_of_all(program_.values.size(), true);
    for (int softmax : softmaxes_) {
      std::vector<bool> made = results_of(softmax);
      for (size_t i = 0; i < made.size(); ++i) {
        made_of_all[i] = made_of_all[i] && made[i];
        w_.results[i] = w_.results[i] || made[i];
      }
    }
    for (int i = count(); !softmaxes_.empty() && i-- > 0;)
      if (made_of_all[i] && is_over_both(program_.values[i].dims)) w_.value = i;
    if (softmaxes_.empty()) w_.results = results_of(w_.value);
    w_.sources.assign(program_.values.size(), false);
    w_.sources[w_.value] = true;
    mark_sources(program_, w_.sources);
  }
  bool is_over_both(const Names& names) const {
    return axis_of(program_, names, w_.row) >= 0 && axis_of(program_, names, w_.column) >= 0;
  }
  std::vector<bool> results_of(int number) const {
    std::vector<bool> made(program_.values.size(), false);
    made[number] = true;
    mark_results(program_, made);
    return made;
  }

  const Checked& program_;
  Weights w_;
  std::vector<int> softmaxes_;  // values that have one
};

class Finder {
 public:
  Finder(const Checked& program, Roles& roles)
      : program_(program),
        roles_(roles),
        aliases_(program),
        weights_(WeightsFinder(program).find()) {}

  void find() {
    if (weights_.row < 0) return;
    if (const int shown = aliases_.shown(weights_.value); shown >= 0) weights_.value = shown;
    roles_.own_mask = weights_.own_mask;
    find_maps();
    find_mixing();
    find_contribution();
    roles_.ties = ties_of(program_, roles_.maps, aliases_);
  }

 private:
  int count() const { return static_cast<int>(program_.values.size()); }
  const CheckedValue& value(int i) const { return program_.values[i]; }
  int axis(const Names& names, int of) const { return axis_of(program_, names, of); }

  // True for a dimension that several operands of an einsum share with its result, for one that the
  // weights have besides rows and columns, and for one that is called so.
  bool is_head(int i) const {
    const Dimension& d = program_.dimensions[i];
    const std::string name = d.short_name();
    if (d.head || name == "h" || name.starts_with("h_")) return true;
    const Names& weights = value(weights_.value).dims;
    return d.role == Role::none && axis(weights, i) >= 0 &&
           !same_axis(program_, i, weights_.column);
  }

  void find_maps() {
    for (int i = 0; i < count(); ++i) {
      const CheckedValue& v = value(i);
      if (program_.is_argument(i) || v.element != Element::real || aliases_.shown(i) != i) continue;
      Roles::Map map{i,     axis(v.dims, weights_.row), axis(v.dims, weights_.column), {},
                     false, weights_.results[i]};
      if (map.rows < 0 || map.columns < 0) continue;
      const Node& right = value(aliases_.origin(i)).right;
      map.is_softmax = calls(right, "softmax") && same_axis(program_, right.dim(), weights_.column);
      add_others(v, map);
      if (i == weights_.value) roles_.weights = static_cast<int>(roles_.maps.size());
      roles_.maps.push_back(std::move(map));
    }
  }
  // Heads come last: of several axes that of the weights.
  void add_others(const CheckedValue& v, Roles::Map& map) const {
    for (int k = 0; k < v.dims.size(); ++k)
      if (k != map.rows && k != map.columns) map.others.push_back(k);
    const auto rank = [&](int k) {
      const int d = v.dims[k];
      return is_head(d) + (axis(value(weights_.value).dims, d) >= 0 ? 1 : 0);
    };
    std::stable_sort(map.others.begin(), map.others.end(),
                     [&](int a, int b) { return rank(a) < rank(b); });
  }

  void find_mixing() {
    for (size_t i = 0; i < program_.parameters.size(); ++i) {
      const int number = program_.parameters[i].value;
      const Names& dims = value(number).dims;
      if (dims.size() != 2 || !is_head(dims[0]) || !is_head(dims[1])) continue;
      const bool before = weights_.sources[number];
      (before ? roles_.mix_before : roles_.mix_after).push_back(static_cast<int>(i));
    }
  }

  void find_contribution() {
    for (int i = 0; i < count(); ++i) {
      const CheckedValue& v = value(i);
      if (program_.is_argument(i) || aliases_.shown(i) != i || i == program_.result) continue;
      if (!weights_.results[i] || axis(v.dims, weights_.column) >= 0) continue;
      int heads = -1, several = 0;
      for (int k = 0; k < v.dims.size(); ++k)
        if (is_head(v.dims[k])) heads = k, ++several;
      if (several == 1) roles_.contribution = i, roles_.contribution_heads = heads;
    }
    if (roles_.contribution >= 0) return;
    for (const Roles::Map& map : roles_.maps)
      if (map.is_measured) roles_.contribution = map.value, roles_.contribution_heads = map.heads();
  }

  const Checked& program_;
  Roles& roles_;
  const Aliases aliases_;
  Weights weights_;
};

}  // namespace

Roles roles_of(const Checked& program) {
  Roles roles;
  Finder(program, roles).find();
  return roles;
}

}  // namespace tete
