// Expressions over queries n and a memory m that read these in position(m) - position(n) alone, as
// relative positions do (Raffel et al. 2020, section 2.1): they have one number for each distance.
// A run of one query and of a memory as long as there are distances computes them.
#include "nn/run/fusion.hpp"
#include "nn/tile/tile.hpp"

namespace tete {

namespace {

class DistanceFinder {
 public:
  DistanceFinder(const Checked& program, ByDistance& found, std::vector<int>& inside)
      : program_(program), found_(found), inside_(inside) {}

  // n and m have other names where a value is the same under another name.
  bool fits(const Node& node, int n, int m) {
    if (is_distance(node, n, m)) return true;
    const auto is_free = [&](int dim) {
      const DimensionFlow& made = program_.flow.dimensions[dim];
      return program_.dimensions[dim].role == Role::none && !made.made_of_queries &&
             !made.made_of_memory;
    };
    for (int name : node.names)
      if (name != n && name != m && !is_free(name)) return false;
    switch (node.kind) {
      case NodeKind::size:
        return is_free(node.index);
      case NodeKind::value:
        return value_fits(node, n, m);
      case NodeKind::call:
        return call_fits(node, n, m);
      default:
        return all_fit(node.args, n, m);
    }
  }

 private:
  static bool is_position(const Node& node, int dim) {
    return node.builtin && node.builtin->is_position && node.names == Names{dim};
  }
  static bool is_distance(const Node& node, int n, int m) {
    if (node.kind != NodeKind::operation || node.op != Operator::subtract || node.args.size() != 2)
      return false;
    const Node &a = node.args[0], &b = node.args[1];
    return (is_position(a, m) && is_position(b, n)) || (is_position(a, n) && is_position(b, m));
  }

  bool all_fit(const std::vector<Node>& args, int n, int m) {
    for (const Node& arg : args)
      if (!fits(arg, n, m)) return false;
    return true;
  }

  bool call_fits(const Node& node, int n, int m) {
    const Builtin& builtin = *node.builtin;
    if (builtin.apply || builtin.unary != Unary::count) return all_fit(node.args, n, m);
    if (builtin.name == "index") return node.names[0] != n && node.names[0] != m;
    const Names& table = node.args.empty() ? node.names : node.args[0].names;
    return builtin.name == "gather" && !table.contains(n) && !table.contains(m) &&
           all_fit(node.args, n, m);
  }

  bool value_fits(const Node& node, int n, int m) {
    const bool has_n = node.names.contains(n), has_m = node.names.contains(m);
    if (!has_n && !has_m) {
      found_.given.push_back(node.index);
      found_.learned |= program_.flow.values[node.index].from.learned;
      return true;
    }
    if (!has_n || !has_m || !node.plain) return false;
    int at = node.index;
    for (; program_.values[at].kind == ValueKind::same; at = program_.values[at].index) {
      const auto renamed = [&, &to = program_.values[program_.values[at].index]](int name) {
        const int place = program_.values[at].dims.find(name);
        return place < 0 ? name : to.dims[place];
      };
      if (!is_read_once(at)) return false;
      inside_.push_back(at);
      n = renamed(n), m = renamed(m);
    }
    const CheckedValue& v = program_.values[at];
    if (v.kind != ValueKind::statement || v.names != v.dims || v.norm >= 0 || v.strips >= 0 ||
        !is_read_once(at))
      return false;
    inside_.push_back(at);
    return fits(v.right, n, m);
  }

  bool is_read_once(int value) const {
    int readers = 0;
    for (const CheckedValue& v : program_.values)
      for (int used : v.uses) readers += used == value;
    return readers == 1;
  }

  const Checked& program_;
  ByDistance& found_;
  std::vector<int>& inside_;
};

}  // namespace

std::optional<ByDistance> find_by_distance(const Checked& program, const Node& node, int n, int m,
                                           std::vector<int>& inside) {
  ByDistance found{n, m};
  const size_t known = inside.size();
  if (n >= 0 && m >= 0 && program.dimensions[n].role == Role::query &&
      program.dimensions[m].role == Role::memory && node.names.contains(n) &&
      node.names.contains(m) && DistanceFinder(program, found, inside).fits(node, n, m))
    return found;
  inside.resize(known);
  return {};
}

// The distances from the last query to a memory that is longer by the other queries are those of
// all queries.
Value Runner::by_distance(const Node& expression, const ByDistance& of) {
  const Index rows = size(of.n);
  SizeTable sizes = sizes_;
  sizes.set_lengths(1, rows + size(of.m) - 1);
  CallPart last_query = part();
  last_query.first.query += length(Role::query) - 1, last_query.block.query += rows - 1;
  const Forward unseen = inside_tile(forward_);
  Runner last(sizes, last_query, unseen, path_, mask_);
  for (int number : of.given) last.values_[number] = at(number);
  const Value v = last.node(expression);
  Shape shape = v.tensor.shape();
  shape.erase(last.axis_of(v, of.n));
  return {reshape(v.tensor, shape), v.names.without(of.n), v.batched};
}

}  // namespace tete
