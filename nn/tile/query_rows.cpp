#include "nn/tile/query_rows.hpp"

#include <algorithm>

namespace tete {

std::string QueryRows::name_of(int dim) const {
  return text("'", program_.dimensions[dim].name, "'");
}

std::ptrdiff_t QueryRows::count(const Names& dims) const {
  return std::count_if(dims.begin(), dims.end(), [&](int dim) { return is_query(dim); });
}

std::string QueryRows::reason(const CheckedValue& v) const {
  for (const Names* dims : {&v.dims, &v.names})
    for (int dim : *dims)
      if (flow(dim).made_of_queries)
        return text("the size of ", name_of(dim), " follows from the number of queries");
  const auto queries = count(v.dims);
  if (queries == 0) return "it leaves no dimension of theirs";
  if (queries > 1) return text(counted(queries, "dimension"), " of it are the queries'");
  for (int dim : v.dims)
    if (is_query(dim) && v.kind == ValueKind::statement && !v.names.contains(dim))
      return "it merges the queries' dimension on the left";
  return "";
}

std::string QueryRows::reason(const Node& node) const {
  const std::string_view function = node.builtin ? node.builtin->name : "it";
  if (node.builtin && node.builtin->combines_positions)
    for (const Node::Key& key : node.keys) {
      Names along = key.dims;
      if (key.dim >= 0) along.push_back(key.dim);
      for (int dim : along)
        if (is_query(dim)) return text(function, " runs along ", name_of(dim));
    }
  if (node.kind == NodeKind::size && (is_query(node.index) || flow(node.index).made_of_queries))
    return text("the length ", name_of(node.index), " stands in it");
  for (const Node& arg : node.args)
    for (int name : arg.names)
      if (is_query(name) && !node.names.contains(name))
        return text(function, " sums over ", name_of(name));
  return node.kind == NodeKind::value && !node.plain ? reason_in_use(node) : "";
}

std::string QueryRows::reason_in_use(const Node& node) const {
  const CheckedValue& used = program_.values[node.index];
  for (int k = 0; k < used.dims.size(); ++k) {
    const Names& parts = node.axes[k].parts;
    const bool becomes = parts.size() == 1 && is_query(parts[0]);
    if (parts != Names{used.dims[k]} && (is_query(used.dims[k]) || becomes))
      return text("it picks, splits or renames the queries of '", used.name, "'");
  }
  return "";
}

OtherRows QueryRows::read_by(const CheckedValue& v) const {
  OtherRows first{reason(v), v.place};
  if (!first.reason.empty()) return first;
  visit(v.right, [&](const Node& node) {
    if (first.reason.empty()) first = {reason(node), node.place};
  });
  return first;
}

}  // namespace tete
