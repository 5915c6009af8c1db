#include "tools/inspect/ties.hpp"

#include <algorithm>

#include "tools/inspect/expression.hpp"
#include "tools/inspect/places.hpp"

namespace tete {

bool same_axis(const Checked& program, int a, int b) {
  if (a == b) return true;
  const Dimension &one = program.dimensions[a], &other = program.dimensions[b];
  if (one.role != Role::none || other.role != Role::none) return one.role == other.role;
  return one.short_name() == other.short_name();
}

int axis_of(const Checked& program, const Names& names, int axis) {
  for (int i = 0; i < names.size(); ++i)
    if (same_axis(program, names[i], axis)) return i;
  return -1;
}

Aliases::Aliases(const Checked& program) : shown_(program.values.size(), -1) {
  for (size_t i = 0; i < program.values.size(); ++i) {
    const auto number = static_cast<int>(i);
    const CheckedValue& v = program.values[i];
    const bool is_dropped = calls(v.right, "dropout") && is_plain_value(v.right.args[0]);
    origins_.push_back(v.kind == ValueKind::same ? origin(v.index)
                       : is_dropped              ? origin(v.right.args[0].index)
                                                 : number);
    int& best = shown_[origins_.back()];
    if (v.watched && !program.is_argument(number) &&
        (best < 0 || v.name.size() < program.values[best].name.size()))
      best = number;
  }
}

namespace {

// Follows the expression of a map down to other maps.
class TieFinder {
 public:
  TieFinder(const Checked& program, const std::vector<Roles::Map>& maps, const Aliases& aliases)
      : program_(program), maps_(maps), aliases_(aliases) {}

  std::vector<Roles::Tie> find() {
    for (size_t i = 0; i < maps_.size(); ++i) {
      const CheckedValue& v = program_.values[aliases_.origin(maps_[i].value)];
      const CheckedValue& named = program_.values[maps_[i].value];
      row_ = named.dims[maps_[i].rows], column_ = named.dims[maps_[i].columns];
      follow(v.right, {-1, static_cast<int>(i), ""});
    }
    return std::move(ties_);
  }

 private:
  bool is_over_both(const Node& node) const {
    return axis_of(program_, node.names, row_) >= 0 && axis_of(program_, node.names, column_) >= 0;
  }

  void follow(const Node& node, Roles::Tie tie) {
    if (!is_over_both(node)) return;
    if (node.kind == NodeKind::value) return end(node.index, std::move(tie));
    if (node.builtin && node.builtin->contracts) return contract(node, tie);
    if (node.kind == NodeKind::call) add(tie.by, node.builtin->name);
    for (size_t i = 0; i < node.args.size(); ++i) {
      Roles::Tie inner = tie;
      if (node.kind == NodeKind::operation) operate(node, i, inner);
      follow(node.args[i], inner);
    }
  }

  // A map; or a value without a name of its own, which is followed.
  void end(int number, Roles::Tie tie) {
    const int shown = aliases_.shown(number);
    for (size_t i = 0; i < maps_.size(); ++i)
      if (maps_[i].value == shown) {
        tie.from = static_cast<int>(i);
        ties_.push_back(std::move(tie));
        return;
      }
    const CheckedValue& v = program_.values[aliases_.origin(number)];
    if (v.kind == ValueKind::statement) follow(v.right, std::move(tie));
  }

  // The operator, as it acts on its operand i.
  void operate(const Node& node, size_t i, Roles::Tie& tie) const {
    const Operator op = node.op;
    if (op == Operator::add) return;
    if (op == Operator::subtract) {
      if (i + 1 == node.args.size()) tie.scale = -tie.scale;
      return;
    }
    if (op == Operator::minus) {
      tie.scale = -tie.scale;
      return;
    }
    const bool is_divisor = op == Operator::divide && i == 1;
    if ((op == Operator::multiply || op == Operator::divide) && !is_divisor) {
      const Node& other = node.args[1 - i];
      const bool is_number = other.kind == NodeKind::number;
      if (is_number) tie.scale *= op == Operator::divide ? 1 / other.number : other.number;
      else add(tie.by, (op == Operator::divide ? "÷ " : "× ") + factor_of(other));
      return;
    }
    add(tie.by, is_divisor ? "1 ÷" : "compared");
  }

  // Heads that stay are each for itself, times the other operands; those that are summed are mixed.
  void contract(const Node& node, const Roles::Tie& tie) {
    for (size_t i = 0; i < node.args.size(); ++i) {
      const Node& arg = node.args[i];
      Roles::Tie inner = tie;
      const bool is_mixed = std::any_of(arg.names.begin(), arg.names.end(),
                                        [&](int name) { return !node.names.contains(name); });
      const bool is_product = node.args.size() > 1;
      if (is_mixed && is_product) mix(node, i, inner);
      else if (is_product) add(inner.by, "× " + others_of(node, i));
      else if (is_mixed) add(inner.by, "summed");
      follow(arg, inner);
    }
  }

  void mix(const Node& node, size_t i, Roles::Tie& tie) const {
    const Node& other = node.args[node.args.size() - 1 - i];
    const bool is_matrix = node.args.size() == 2 && is_plain_value(other) && tie.mixer < 0 &&
                           find_axes(node.args[i], other, node, tie);
    if (is_matrix) tie.mixer = other.index;
    else tie.is_unknown = true, add(tie.by, "mixed by " + others_of(node, i));
  }
  // True if the value has one axis of the heads that are summed, one of the result's, and the
  // queries' or the columns' at most.
  bool find_axes(const Node& from, const Node& mixer, const Node& to, Roles::Tie& tie) const {
    tie.mixed = tie.made = tie.sequence = -1;
    for (int i = 0; i < mixer.names.size(); ++i) {
      const int name = mixer.names[i];
      const bool is_sequence =
          same_axis(program_, name, row_) || same_axis(program_, name, column_);
      const bool in_from = from.names.contains(name), in_to = to.names.contains(name);
      if (!is_sequence && in_from == in_to) return false;
      int& axis = is_sequence ? tie.sequence : in_from ? tie.mixed : tie.made;
      if (axis >= 0) return false;
      axis = i;
    }
    return tie.mixed >= 0 && tie.made >= 0;
  }

  static void add(std::string& by, std::string_view what) {
    by += by.empty() ? "" : ", ";
    by += what;
  }
  std::string others_of(const Node& node, size_t i) const {
    std::string all;
    for (size_t k = 0; k < node.args.size(); ++k)
      if (k != i) all += (all.empty() ? "" : " × ") + factor_of(node.args[k]);
    return all;
  }
  std::string factor_of(const Node& node) const { return factor(program_, aliases_, node); }

  const Checked& program_;
  const std::vector<Roles::Map>& maps_;
  const Aliases& aliases_;
  int row_ = -1, column_ = -1;  // of the map that is followed
  std::vector<Roles::Tie> ties_;
};

}  // namespace

std::vector<Roles::Tie> ties_of(const Checked& program, const std::vector<Roles::Map>& maps,
                                const Aliases& aliases) {
  return TieFinder(program, maps, aliases).find();
}

}  // namespace tete
