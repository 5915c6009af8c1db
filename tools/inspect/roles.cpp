#include "tools/inspect/roles.hpp"

#include <algorithm>

namespace tete {

namespace {

class Finder {
 public:
  Finder(const Checked& program, Roles& roles) : program_(program), roles_(roles) {}

  void find() {
    find_names();
    find_softmax();
    if (roles_.weights < 0) return;
    find_sources();
    find_maps();
    find_mixing();
    find_contribution();
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
  // Amendments and called defs have dimensions of their own for the same axis.
  bool same_axis(int a, int b) const {
    if (a == b) return true;
    const Role role = dim(a).role;
    if (role != Role::none || dim(b).role != Role::none) return role == dim(b).role;
    return dim(a).short_name() == dim(b).short_name();
  }
  int axis(const Names& names, int of) const {
    for (int i = 0; i < names.size(); ++i)
      if (same_axis(names[i], of)) return i;
    return -1;
  }

  // True for a dimension that several operands of an einsum share with its result, for one that the
  // softmax has besides rows and columns, and for one that is called so.
  bool is_head(int i) const {
    const std::string name = dim(i).short_name();
    if (dim(i).head || name == "h" || name.starts_with("h_")) return true;
    const Names& softmax = value(roles_.weights).dims;
    return dim(i).role == Role::none && axis(softmax, i) >= 0 && !same_axis(i, column_);
  }

  // One that takes the call's mask, or else any over queries; the last of them.
  void find_softmax() {
    bool masked = false;
    for (int i = 0; i < count(); ++i)
      visit(value(i).right, [&](const Node& node) {
        if (!calls(node, "softmax")) return;
        const int query = query_of(node.names);
        if (query < 0 || query == node.dim() || (masked && !node.takes_call_mask)) return;
        masked = node.takes_call_mask;
        roles_.weights = i, query_ = query, column_ = node.dim();
        roles_.normalised = &node == &value(i).right;
        roles_.own_mask = !node.keys[1].value.empty();
        const Node& logits = node.args[0];
        roles_.logits = logits.kind == NodeKind::value && logits.plain ? logits.index : -1;
      });
    if (roles_.weights >= 0) roles_.weights = shown_as(roles_.weights);
    if (roles_.logits >= 0) roles_.logits = shown_as(roles_.logits);
  }

  // Finds, for each value, the statement that makes it and the shortest name under which it is
  // watched. Dropout is the identity where nothing is trained.
  void find_names() {
    shown_.assign(program_.values.size(), -1);
    for (int i = 0; i < count(); ++i) {
      const CheckedValue& v = value(i);
      const Node& right = v.right;
      const bool is_dropped =
          calls(right, "dropout") && right.args[0].kind == NodeKind::value && right.args[0].plain;
      origins_.push_back(v.kind == ValueKind::same ? origin(v.index)
                         : is_dropped              ? origin(right.args[0].index)
                                                   : i);
      int& best = shown_[origins_.back()];
      if (v.watched && !program_.is_argument(i) &&
          (best < 0 || v.name.size() < value(best).name.size()))
        best = i;
    }
  }
  int origin(int i) const { return origins_[i]; }
  int shown_as(int i) const { return shown_[origin(i)]; }

  void find_maps() {
    for (int i = 0; i < count(); ++i) {
      const CheckedValue& v = value(i);
      if (program_.is_argument(i) || v.element != Element::real || shown_as(i) != i) continue;
      Roles::Map map{i, axis(v.dims, query_), axis(v.dims, column_), -1};
      if (map.rows < 0 || map.columns < 0 || v.dims.size() > 3) continue;
      for (int k = 0; k < v.dims.size(); ++k)
        if (k != map.rows && k != map.columns) map.heads = k;
      if (map.heads < 0 || is_head(v.dims[map.heads])) roles_.maps.push_back(map);
    }
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
      if (program_.is_argument(i) || shown_as(i) != i || i == program_.result) continue;
      if (!is_made_of_weights(i) || axis(v.dims, column_) >= 0) continue;
      int heads = -1, several = 0;
      for (int k = 0; k < v.dims.size(); ++k)
        if (is_head(v.dims[k])) heads = k, ++several;
      if (several == 1) roles_.contribution = i, roles_.contribution_heads = heads;
    }
    if (roles_.contribution >= 0) return;
    for (const Roles::Map& map : roles_.maps)
      if (is_made_of_weights(map.value))
        roles_.contribution = map.value, roles_.contribution_heads = map.heads;
  }

  // Marks the values that make the weights, and those made of them; the weights are in both.
  void find_sources() {
    makes_weights_.assign(program_.values.size(), false);
    made_of_weights_ = makes_weights_;
    makes_weights_[roles_.weights] = made_of_weights_[roles_.weights] = true;
    mark_sources(program_, makes_weights_);
    mark_results(program_, made_of_weights_);
  }
  bool is_made_of_weights(int value) const { return made_of_weights_[value]; }

  const Checked& program_;
  Roles& roles_;
  int query_ = -1, column_ = -1;
  std::vector<int> origins_, shown_;  // by value; shown_ of origins alone
  std::vector<bool> makes_weights_, made_of_weights_;
};

}  // namespace

Roles roles_of(const Checked& program) {
  Roles roles;
  Finder(program, roles).find();
  return roles;
}

}  // namespace tete
