#include "nn/tile.hpp"

#include <algorithm>

#include "nn/language/check.hpp"

namespace tete {

namespace {

// True if the length of the memory matters to something inside: another size follows from it, or a
// function counts its positions.
bool counts_memory(const Checked& program, const Tile& tile) {
  const auto is_made_of_it = [&](int dim) { return program.flow.dimensions[dim].made_of_memory; };
  const auto any = [&](const Names& dims) {
    return std::any_of(dims.begin(), dims.end(), is_made_of_it);
  };
  bool counts = program.flow.reads_any_memory;
  for (int i : tile.given) counts |= any(program.values[i].dims);
  for (int i : tile.inside) {
    counts |= any(program.values[i].names);
    visit(program.values[i].right, [&](const Node& node) {
      if (node.kind == NodeKind::size)
        counts |= program.dimensions[node.index].role == Role::memory || is_made_of_it(node.index);
      counts |= node.builtin && node.builtin->counts_positions;
    });
  }
  return counts;
}

// ---- Reasons why the rows of a block are not enough ---------------------------------------------

bool is_query(const Checked& program, int dim) {
  return program.dimensions[dim].role == Role::query;
}

int queries_among(const Checked& program, const Names& dims) {
  int queries = 0;
  for (int dim : dims) queries += is_query(program, dim);
  return queries;
}

std::string cause_in_value(const Checked& program, const CheckedValue& v) {
  for (const Names* dims : {&v.dims, &v.names})
    for (int dim : *dims)
      if (program.flow.dimensions[dim].made_of_queries)
        return text("the size of '", program.dimensions[dim].name,
                    "' follows from the number of queries");
  const int queries = queries_among(program, v.dims);
  return queries == 0  ? "it leaves no dimension of theirs"
         : queries > 1 ? text(counted(queries, "dimension"), " of it are the queries'")
                       : "it merges the queries' dimension on the left";
}

std::string cause_in_expression(const Checked& program, const Node& node) {
  const auto name_of = [&](int dim) { return text("'", program.dimensions[dim].name, "'"); };
  const std::string_view function = node.builtin ? node.builtin->name : "it";
  for (const Node::Key& key : node.keys) {
    if (key.dim >= 0 && is_query(program, key.dim))
      return text(function, " runs along ", name_of(key.dim));
    for (int dim : key.dims)
      if (is_query(program, dim)) return text(function, " runs along ", name_of(dim));
  }
  if (node.kind == NodeKind::size) return text("the length ", name_of(node.index), " stands in it");
  if (node.kind == NodeKind::value)
    return text("it picks, splits or renames the queries of '", program.values[node.index].name,
                "'");
  for (const Node& arg : node.args)
    for (int name : arg.names)
      if (is_query(program, name) && !node.names.contains(name))
        return text(function, " sums over ", name_of(name));
  return text(function, " reads other rows");
}

class TileFinder {
 public:
  explicit TileFinder(const Checked& program) : program_(program) {}

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
    if (!tile_.reason.empty()) return {.reason = tile_.reason, .refused_at = tile_.refused_at};
    tile_.may_crop = program_.leak.empty() && !counts_memory(program_, tile_);
    return tile_;
  }

 private:
  const CheckedValue& value(int i) const { return program_.values[i]; }
  bool is_query(int dim) const { return tete::is_query(program_, dim); }
  bool has_query(const Names& dims) const { return program_.is_over(dims, Role::query); }
  bool has_memory(const Names& dims) const { return program_.is_over(dims, Role::memory); }
  const DimensionFlow& flow(int dim) const { return program_.flow.dimensions[dim]; }
  void refuse(const std::string& why, const std::vector<Place>& places) {
    if (tile_.reason.empty()) tile_.reason = why, tile_.refused_at = places;
  }
  void refuse(const CheckedValue& v, const Place& place, const std::string& cause) {
    const bool wide = has_query(v.dims) && has_memory(v.dims);
    refuse(text("'", v.name, "' ", wide ? "is over queries and memory and " : "",
                "needs all queries at once: ", cause),
           {place});
  }
  void refuse(const CheckedValue& v, const Place& place) {
    refuse(v, place, cause_in_value(program_, v));
  }

  std::vector<bool> wide_values() const {
    std::vector<bool> wide;
    for (const CheckedValue& v : program_.values) {
      const bool is_statement = v.kind == ValueKind::statement;
      wide.push_back(is_statement && has_query(v.names) && has_memory(v.names));
      if (v.kind == ValueKind::same) wide.back() = wide[v.index];
    }
    return wide;
  }

  // The wide values, and those on a path of uses from one of them to another.
  std::vector<bool> with_what_lies_between(const std::vector<bool>& wide) const {
    std::vector<bool> after = wide, before = wide, inside;
    mark_results(program_, after);
    mark_sources(program_, before);
    for (size_t i = 0; i < wide.size(); ++i) inside.push_back(after[i] && before[i]);
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
      if (has_memory(value(exit).dims) && !has_query(value(exit).dims))
        refuse(value(exit), value(exit).place);
      else if (has_memory(value(exit).dims))
        refuse(text("'", value(exit).name, "' is over queries and memory, and is read after"),
               {value(exit).place});
  }

  // ---- Rows of a block ------------------------------------------------------------------------

  void check_given() {
    for (int i : tile_.given) {
      for (int dim : value(i).dims)
        if (flow(dim).made_of_queries) refuse(value(i), value(i).place);
      if (queries_among(program_, value(i).dims) > 1) refuse(value(i), value(i).place);
    }
  }

  void check_rows(const CheckedValue& v) {
    if (queries_among(program_, v.dims) != 1) return refuse(v, v.place);
    const bool is_statement = v.kind == ValueKind::statement;
    for (int dim : v.dims)
      if (is_query(dim) && is_statement && !v.names.contains(dim)) refuse(v, v.place);
    for (const Names* dims : {&v.names, &v.dims})
      for (int dim : *dims)
        if (flow(dim).made_of_queries) refuse(v, v.place);
    visit(v.right, [&](const Node& node) { check_rows(v, node); });
  }

  void check_rows(const CheckedValue& v, const Node& node) {
    bool whole = false;
    const bool combines = node.builtin && node.builtin->combines_positions;
    for (const Node::Key& key : node.keys)
      whole |= combines && ((key.dim >= 0 && is_query(key.dim)) || has_query(key.dims));
    if (node.kind == NodeKind::size)
      whole |= is_query(node.index) || flow(node.index).made_of_queries;
    for (const Node& arg : node.args)
      for (int name : arg.names) whole |= is_query(name) && !node.names.contains(name);
    if (node.kind == NodeKind::value && !node.plain) {
      const CheckedValue& used = value(node.index);
      for (int k = 0; k < used.dims.size(); ++k) {
        const Node::RefAxis& axis = node.axes[k];
        const bool keeps = axis.parts.size() == 1 && axis.parts[0] == used.dims[k];
        const bool becomes = axis.parts.size() == 1 && is_query(axis.parts[0]);
        whole |= !keeps && (is_query(used.dims[k]) || becomes);
      }
    }
    if (whole) refuse(v, node.place, cause_in_expression(program_, node));
  }

  const Checked& program_;
  Tile tile_;
};

}  // namespace

Tile find_tile(const Checked& program) { return TileFinder(program).find(); }

}  // namespace tete
