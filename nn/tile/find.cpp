#include "nn/tile.hpp"

#include <algorithm>

#include "nn/tile/query_rows.hpp"

namespace tete {

namespace {

// True if the length of the memory matters to something inside: another size follows from it, a
// function counts its positions, or values over it are read at computed positions.
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

class TileFinder {
 public:
  explicit TileFinder(const Checked& program) : program_(program), rows_(program) {}

  Tile find() {
    const std::vector<bool> wide = wide_values();
    if (std::find(wide.begin(), wide.end(), true) == wide.end()) return {};
    std::vector<bool> inside = with_what_lies_between(wide);
    add_readers(wide, inside);
    inside = with_what_lies_between(inside);  // what is given must not follow from an exit
    for (size_t i = 0; i < inside.size(); ++i)
      if (inside[i]) tile_.inside.push_back(static_cast<int>(i));
    find_borders(inside);
    check_calls();
    check_given();
    for (int i : tile_.inside) check_rows(value(i));
    if (!tile_.reason.empty()) return {.reason = tile_.reason, .refused_at = tile_.refused_at};
    tile_.may_crop = program_.leak.empty() && !counts_memory(program_, tile_);
    return tile_;
  }

 private:
  const CheckedValue& value(int i) const { return program_.values[i]; }
  bool has_query(const Names& dims) const { return program_.is_over(dims, Role::query); }
  bool has_memory(const Names& dims) const { return program_.is_over(dims, Role::memory); }
  void refuse(const std::string& why, const std::vector<Place>& places) {
    if (tile_.reason.empty()) tile_.reason = why, tile_.refused_at = places;
  }
  void refuse(const CheckedValue& v, const Place& place, const std::string& cause) {
    const bool wide = has_query(v.dims) && has_memory(v.dims);
    refuse(text("'", v.name, "' ", wide ? "is over queries and memory and " : "",
                "needs all queries at once: ", cause),
           {place});
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

  // These values, and those on a path of uses from one of them to another.
  std::vector<bool> with_what_lies_between(const std::vector<bool>& values) const {
    std::vector<bool> after = values, before = values, inside;
    mark_results(program_, after);
    mark_sources(program_, before);
    for (size_t i = 0; i < values.size(); ++i) inside.push_back(after[i] && before[i]);
    return inside;
  }

  void add_readers(const std::vector<bool>& wide, std::vector<bool>& inside) const {
    for (size_t i = 0; i < wide.size(); ++i)
      for (int used : program_.values[i].uses)
        if (wide[used]) inside[i] = true;
  }

  // A block computes what is in strips from what that reads.
  void mark_given(int number, const std::vector<bool>& inside, std::vector<bool>& given) const {
    if (inside[number]) return;
    if (value(number).strips < 0) given[number] = true;
    else
      for (int used : value(number).uses) mark_given(used, inside, given);
  }

  void find_borders(const std::vector<bool>& inside) {
    std::vector<bool> given(inside.size()), exits(inside.size());
    for (size_t i = 0; i < inside.size(); ++i)
      for (int used : program_.values[i].uses) {
        const auto u = static_cast<size_t>(used);
        if (inside[i]) mark_given(used, inside, given);
        if (!inside[i] && inside[u]) exits[u] = true;
      }
    if (inside[program_.result]) exits[program_.result] = true;
    for (size_t i = 0; i < inside.size(); ++i) {
      if (given[i]) tile_.given.push_back(static_cast<int>(i));
      if (exits[i]) tile_.exits.push_back(static_cast<int>(i));
    }
    for (int exit : tile_.exits)
      if (has_memory(value(exit).dims) && !has_query(value(exit).dims))
        refuse(value(exit), value(exit).place, rows_.reason(value(exit)));
      else if (has_memory(value(exit).dims))
        refuse(text("'", value(exit).name, "' is over queries and memory, and is read after"),
               {value(exit).place});
  }

  // A block has no parameters to pass on.
  void check_calls() {
    for (int i : tile_.inside)
      if (value(i).kind == ValueKind::call)
        refuse(text("'", value(i).name, "' lies between values over queries and memory, and is a ",
                    "call that runs by itself"),
               {value(i).place});
  }

  // ---- Rows of a block ------------------------------------------------------------------------

  void check_given() {
    for (int i : tile_.given) {
      const CheckedValue& v = value(i);
      const bool counts = std::any_of(v.dims.begin(), v.dims.end(), [&](int dim) {
        return program_.flow.dimensions[dim].made_of_queries;
      });
      if (counts || rows_.count(v.dims) > 1) refuse(v, v.place, rows_.reason(v));
    }
  }

  void check_rows(const CheckedValue& v) {
    if (const auto [reason, place] = rows_.read_by(v); !reason.empty()) refuse(v, place, reason);
  }

  const Checked& program_;
  QueryRows rows_;
  Tile tile_;
};

}  // namespace

Tile find_tile(const Checked& program) { return TileFinder(program).find(); }

}  // namespace tete
