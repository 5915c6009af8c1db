#include "nn/language/check/tiling.hpp"

#include <algorithm>

#include "nn/language/check/analysis.hpp"

namespace tete {

std::vector<int> memory_pieces(const Checked& program) {
  std::vector<int> pieces;
  for (const CheckedValue& v : program.values)
    visit(v.right, [&](const Node& node) {
      if (node.kind != Node::Kind::call || !calls(node, "windows")) return;
      const int windows = node.keys[1].dims[0];
      const Role role = program.dimensions[node.dim()].role;
      if (role == Role::memory && windows != node.dim()) pieces.push_back(windows);
    });
  return pieces;
}

std::vector<bool> dimensions_made_of(const Checked& program, Role of) {
  const size_t count = program.dimensions.size();
  std::vector<bool> is_sequence(count), found(count);
  std::vector<std::vector<int>> makes(count);
  for (size_t i = 0; i < count; ++i) {
    const Dimension& d = program.dimensions[i];
    is_sequence[i] = found[i] = d.role == of;
    const auto made_of = [&](int dim) { makes[dim].push_back(static_cast<int>(i)); };
    for (int part : d.product) made_of(part);
    for (const Node& size : d.fallback)
      visit(size, [&](const Node& node) {
        if (node.kind == Node::Kind::size) made_of(node.index);
      });
  }
  spread(found, makes);
  for (size_t i = 0; i < count; ++i) found[i] = found[i] && !is_sequence[i];
  return found;
}

namespace {

class TileFinder {
 public:
  explicit TileFinder(const Checked& program)
      : program_(program),
        pieces_(memory_pieces(program)),
        made_of_queries_(dimensions_made_of(program, Role::query)),
        made_of_memory_(dimensions_made_of(program, Role::memory)) {}

  Tile find() {
    const std::vector<bool> wide = wide_values();
    if (std::find(wide.begin(), wide.end(), true) == wide.end()) return {};
    std::vector<bool> inside = with_what_lies_between(wide);
    add_readers(wide, inside);
    for (size_t i = 0; i < inside.size(); ++i)
      if (inside[i]) tile_.inside.push_back(static_cast<int>(i));
    find_borders(inside);
    check_given();
    for (int i : tile_.inside) check_rows(value(i));
    if (!tile_.refusal.empty()) return {.refusal = tile_.refusal, .refused_at = tile_.refused_at};
    tile_.may_crop = program_.leak.empty() && may_crop();
    return tile_;
  }

 private:
  const CheckedValue& value(int i) const { return program_.values[i]; }
  Role role(int dim) const { return program_.dimensions[dim].role; }
  bool is_query(int dim) const { return role(dim) == Role::query; }
  bool is_memory(int dim) const {
    return role(dim) == Role::memory || std::count(pieces_.begin(), pieces_.end(), dim) > 0;
  }
  template <class Is>
  static bool any(const Names& dims, const Is& is) {
    return std::any_of(dims.begin(), dims.end(), is);
  }
  bool has_query(const Names& dims) const {
    return any(dims, [this](int dim) { return is_query(dim); });
  }
  void refuse(const std::string& why, const std::vector<Place>& places) {
    if (tile_.refusal.empty()) tile_.refusal = point_out(why, places), tile_.refused_at = places;
  }
  void refuse(const CheckedValue& v, const Place& place) {
    refuse(text("'", v.name, "' is over queries and memory and needs all queries at once, so it ",
                "does not run a block of queries at a time"),
           {place});
  }

  std::vector<bool> wide_values() const {
    std::vector<bool> wide;
    for (const CheckedValue& v : program_.values) {
      const auto memory = [this](int dim) { return is_memory(dim); };
      const bool is_statement = v.kind == CheckedValue::Kind::statement;
      wide.push_back(is_statement && has_query(v.names) && any(v.names, memory));
      if (v.kind == CheckedValue::Kind::same) wide.back() = wide[v.index];
    }
    return wide;
  }

  // The wide values, and those on a path of uses from one of them to another.
  std::vector<bool> with_what_lies_between(const std::vector<bool>& wide) const {
    const size_t count = wide.size();
    std::vector<bool> after = wide, before = wide;
    for (size_t i = 0; i < count; ++i)
      for (int used : program_.values[i].uses)
        if (after[used]) after[i] = true;
    for (size_t i = count; i-- > 0;)
      if (before[i])
        for (int used : program_.values[i].uses) before[used] = true;
    std::vector<bool> inside(count);
    for (size_t i = 0; i < count; ++i) inside[i] = after[i] && before[i];
    return inside;
  }

  void add_readers(const std::vector<bool>& wide, std::vector<bool>& inside) const {
    for (size_t i = 0; i < wide.size(); ++i)
      for (int used : program_.values[i].uses)
        if (wide[used]) inside[i] = true;
  }

  void find_borders(const std::vector<bool>& inside) {
    std::vector<bool> given(inside.size()), exits(inside.size());
    for (size_t i = 0; i < inside.size(); ++i)
      for (int used : program_.values[i].uses) {
        const auto u = static_cast<size_t>(used);
        if (inside[i] && !inside[u]) given[u] = true;
        if (!inside[i] && inside[u]) exits[u] = true;
      }
    if (inside[program_.result]) exits[program_.result] = true;
    for (size_t i = 0; i < inside.size(); ++i) {
      if (given[i]) tile_.given.push_back(static_cast<int>(i));
      if (exits[i]) tile_.exits.push_back(static_cast<int>(i));
    }
    for (int exit : tile_.exits)
      if (any(value(exit).dims, [this](int dim) { return is_memory(dim); }))
        refuse(text("'", value(exit).name, "' is over queries and memory, and is read after"),
               {value(exit).place});
  }

  // ---- Rows of a block ------------------------------------------------------------------------

  void check_given() {
    for (int i : tile_.given) {
      int queries = 0;
      for (int dim : value(i).dims) {
        queries += is_query(dim);
        if (made_of_queries_[dim]) refuse(value(i), value(i).place);
      }
      if (queries > 1) refuse(value(i), value(i).place);
    }
  }

  void check_rows(const CheckedValue& v) {
    const auto queries =
        std::count_if(v.dims.begin(), v.dims.end(), [this](int dim) { return is_query(dim); });
    if (queries != 1) return refuse(v, v.place);
    const bool is_statement = v.kind == CheckedValue::Kind::statement;
    for (int dim : v.dims)
      if (is_query(dim) && is_statement && !v.names.contains(dim)) refuse(v, v.place);
    for (const Names* dims : {&v.names, &v.dims})
      for (int dim : *dims)
        if (made_of_queries_[dim]) refuse(v, v.place);
    visit(v.right, [&](const Node& node) { check_rows(v, node); });
  }

  void check_rows(const CheckedValue& v, const Node& node) {
    bool whole = false;
    for (const Node::Key& key : node.keys) {
      if (calls(node, "dropout")) break;  // noise shared by queries is the same in every block
      whole |= key.dim >= 0 && is_query(key.dim);
      whole |= has_query(key.dims);
    }
    if (node.kind == Node::Kind::size)
      whole |= is_query(node.index) || made_of_queries_[node.index];
    if (calls(node, "einsum"))
      for (const Node& arg : node.args)
        whole |=
            any(arg.names, [&](int name) { return is_query(name) && !node.names.contains(name); });
    if (node.kind == Node::Kind::value && !node.plain) {
      const CheckedValue& used = value(node.index);
      for (int k = 0; k < used.dims.size(); ++k) {
        const Node::RefAxis& axis = node.axes[k];
        whole |= is_query(used.dims[k]) && (axis.pick >= 0 || axis.parts.size() != 1);
      }
    }
    if (whole) refuse(v, node.place);
  }

  // True if the length of the memory matters to nothing else: no other size follows from it, and no
  // function inside counts its positions.
  bool may_crop() const {
    const auto counts = [this](int dim) {
      return role(dim) == Role::memory || made_of_memory_[dim];
    };
    const auto derived = [this](int dim) { return made_of_memory_[dim]; };
    bool may = true;
    for (int i : tile_.given) may = may && !any(value(i).dims, derived);
    for (int i : tile_.inside) {
      may = may && !any(value(i).names, derived);
      visit(value(i).right, [&](const Node& node) {
        if (node.kind == Node::Kind::size && counts(node.index)) may = false;
        if (node.builtin && node.builtin->counts_positions) may = false;
      });
    }
    return may;
  }

  const Checked& program_;
  std::vector<int> pieces_;
  std::vector<bool> made_of_queries_, made_of_memory_;
  Tile tile_;
};

}  // namespace

Tile find_tile(const Checked& program) { return TileFinder(program).find(); }

}  // namespace tete
