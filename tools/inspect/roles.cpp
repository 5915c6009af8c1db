#include "tools/inspect/roles.hpp"

#include <algorithm>

#include "tools/inspect/ties.hpp"

namespace tete {

namespace {

class Finder {
 public:
  Finder(const Checked& program, Roles& roles)
      : program_(program), roles_(roles), aliases_(program) {}

  void find() {
    find_softmaxes();
    if (softmaxes_.empty()) find_weighing();
    if (row_ < 0) return;
    find_weights();
    find_maps();
    find_mixing();
    find_contribution();
    roles_.ties = ties_of(program_, roles_.maps, aliases_);
  }

 private:
  int count() const { return static_cast<int>(program_.values.size()); }
  const CheckedValue& value(int i) const { return program_.values[i]; }
  const Dimension& dim(int i) const { return program_.dimensions[i]; }
  int query_of(const Names& names) const {
    for (int name : names)
      if (dim(name).role == Role::query) return name;
    return -1;
  }
  bool same_axis(int a, int b) const { return tete::same_axis(program_, a, b); }
  int axis(const Names& names, int of) const { return axis_of(program_, names, of); }
  bool is_over_both(const Names& names) const {
    return axis(names, row_) >= 0 && axis(names, column_) >= 0;
  }

  // True for a dimension that several operands of an einsum share with its result, for one that the
  // weights have besides rows and columns, and for one that is called so.
  bool is_head(int i) const {
    const std::string name = dim(i).short_name();
    if (dim(i).head || name == "h" || name.starts_with("h_")) return true;
    const Names& weights = value(weights_).dims;
    return dim(i).role == Role::none && axis(weights, i) >= 0 && !same_axis(i, column_);
  }

  // Those that take the call's mask, or else all over queries, with the columns of the last.
  void find_softmaxes() {
    bool masked = false;
    for (int i = 0; i < count(); ++i)
      visit(value(i).right, [&](const Node& node) {
        if (!calls(node, "softmax")) return;
        const int query = query_of(node.names);
        if (query < 0 || query == node.dim() || (masked && !node.takes_call_mask)) return;
        if (node.takes_call_mask && !masked) softmaxes_.clear();
        masked = node.takes_call_mask;
        softmaxes_.push_back(i);
        row_ = query, column_ = node.dim();
        roles_.own_mask = !node.keys[1].value.empty();
      });
  }

  // Without a softmax: what is multiplied with values of the memory, and summed over it.
  void find_weighing() {
    for (int i = 0; i < count(); ++i)
      visit(value(i).right, [&](const Node& node) {
        if (!node.builtin || !node.builtin->contracts) return;
        const int query = query_of(node.names);
        if (query < 0 || node.args.size() < 2) return;
        for (const Node& arg : node.args)
          for (int name : arg.names)
            if (dim(name).role == Role::memory && !node.names.contains(name) &&
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
    roles_.weights = used.index, row_ = query, column_ = column;
  }

  // The first value that all softmaxes lead to; the last of them, if none does.
  void find_weights() {
    weights_ = softmaxes_.empty() ? roles_.weights : softmaxes_.back();
    made_of_weights_.assign(program_.values.size(), false);
    std::vector<bool> made_of_all(program_.values.size(), true);
    for (int softmax : softmaxes_) {
      std::vector<bool> made = results_of(softmax);
      for (size_t i = 0; i < made.size(); ++i) {
        made_of_all[i] = made_of_all[i] && made[i];
        made_of_weights_[i] = made_of_weights_[i] || made[i];
      }
    }
    for (int i = count(); !softmaxes_.empty() && i-- > 0;)
      if (made_of_all[i] && is_over_both(value(i).dims)) weights_ = i;
    if (softmaxes_.empty()) made_of_weights_ = results_of(weights_);
    makes_weights_.assign(program_.values.size(), false);
    makes_weights_[weights_] = true;
    mark_sources(program_, makes_weights_);
    if (aliases_.shown(weights_) >= 0) weights_ = aliases_.shown(weights_);
  }
  std::vector<bool> results_of(int number) const {
    std::vector<bool> made(program_.values.size(), false);
    made[number] = true;
    mark_results(program_, made);
    return made;
  }

  void find_maps() {
    roles_.weights = -1;
    for (int i = 0; i < count(); ++i) {
      const CheckedValue& v = value(i);
      if (program_.is_argument(i) || v.element != Element::real || aliases_.shown(i) != i) continue;
      Roles::Map map{i, axis(v.dims, row_), axis(v.dims, column_), {}, false, made_of_weights_[i]};
      if (map.rows < 0 || map.columns < 0) continue;
      const Node& right = value(aliases_.origin(i)).right;
      map.is_softmax = calls(right, "softmax") && same_axis(right.dim(), column_);
      add_others(v, map);
      if (i == weights_) roles_.weights = static_cast<int>(roles_.maps.size());
      roles_.maps.push_back(std::move(map));
    }
  }
  // Heads come last: of several axes that of the weights.
  void add_others(const CheckedValue& v, Roles::Map& map) const {
    for (int k = 0; k < v.dims.size(); ++k)
      if (k != map.rows && k != map.columns) map.others.push_back(k);
    const auto rank = [&](int k) {
      const int d = v.dims[k];
      return is_head(d) + (axis(value(weights_).dims, d) >= 0 ? 1 : 0);
    };
    std::stable_sort(map.others.begin(), map.others.end(),
                     [&](int a, int b) { return rank(a) < rank(b); });
  }

  void find_mixing() {
    for (size_t i = 0; i < program_.parameters.size(); ++i) {
      const int number = program_.parameters[i].value;
      const Names& dims = value(number).dims;
      if (dims.size() != 2 || !is_head(dims[0]) || !is_head(dims[1])) continue;
      const bool before = makes_weights_[number];
      (before ? roles_.mix_before : roles_.mix_after).push_back(static_cast<int>(i));
    }
  }

  void find_contribution() {
    for (int i = 0; i < count(); ++i) {
      const CheckedValue& v = value(i);
      if (program_.is_argument(i) || aliases_.shown(i) != i || i == program_.result) continue;
      if (!made_of_weights_[i] || axis(v.dims, column_) >= 0) continue;
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
  int row_ = -1, column_ = -1, weights_ = -1;
  std::vector<int> softmaxes_;  // values that have one
  std::vector<bool> makes_weights_, made_of_weights_;
};

}  // namespace

Roles roles_of(const Checked& program) {
  Roles roles;
  Finder(program, roles).find();
  return roles;
}

}  // namespace tete
