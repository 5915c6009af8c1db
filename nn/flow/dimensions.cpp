// The flow of dimensions: heads, the sequence that an axis belongs to, sizes made of lengths.
#include <algorithm>

#include "nn/flow/finder.hpp"

namespace tete {

namespace {

using Graph = std::vector<std::vector<int>>;  // the dimensions that each leads to

// Marks every dimension that can be reached from a marked one.
void spread(std::vector<bool>& marked, const Graph& next) {
  std::vector<int> open;
  for (size_t i = 0; i < marked.size(); ++i)
    if (marked[i]) open.push_back(static_cast<int>(i));
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    for (int to : next[at])
      if (!marked[to]) marked[to] = true, open.push_back(to);
  }
}

// ---- Heads --------------------------------------------------------------------------------------

// A head is a name that two operands of an einsum share with the result, but no sequence.
void mark_heads(const Node& node, std::vector<Dimension>& dimensions) {
  if (node.builtin && node.builtin->contracts)
    for (int name : node.names) {
      const auto has = [&](const Node& arg) { return arg.names.contains(name); };
      Dimension& d = dimensions[name];
      if (d.role == Role::none && std::count_if(node.args.begin(), node.args.end(), has) >= 2)
        d.head = true;
    }
  for (const Node& arg : node.args) mark_heads(arg, dimensions);
}

// Groups of dimensions that are heads if one of them is: a dimension under two names, a dimension
// and its parts, and h_k and h where h_k = h.
std::vector<Names> alike_in(const Checked& program) {
  std::vector<Names> alike;
  for (const Condition& c : program.conditions)
    if (c.kind == ConditionKind::equal || c.kind == ConditionKind::product) {
      alike.push_back(c.others);
      alike.back().push_back(c.dim);
    }
  for (size_t i = 0; i < program.dimensions.size(); ++i)
    for (const Node& size : program.dimensions[i].fallback)
      if (size.kind == NodeKind::size) alike.push_back({static_cast<int>(i), size.index});
  return alike;
}

void find_heads(Checked& program) {
  for (const CheckedValue& value : program.values) mark_heads(value.right, program.dimensions);
  const size_t count = program.dimensions.size();
  std::vector<bool> heads(count);
  for (size_t i = 0; i < count; ++i) heads[i] = program.dimensions[i].head;
  Graph next(count);
  for (const Names& alike : alike_in(program))
    for (int from : alike)
      for (int to : alike)
        if (program.dimensions[to].role == Role::none) next[from].push_back(to);
  spread(heads, next);
  for (size_t i = 0; i < count; ++i) program.dimensions[i].head = heads[i];
}

// ---- Sequences ----------------------------------------------------------------------------------

void find_sequences(Checked& program) {
  std::vector<DimensionFlow>& flows = program.flow.dimensions;
  for (const Dimension& d : program.dimensions) flows.push_back({.within = d.role});
  for (const Condition& c : program.conditions)
    if (c.kind == ConditionKind::product)
      for (int part : c.others)
        if (flows[part].within == Role::none) flows[part].within = flows[c.dim].within;
  // Windows over the memory form a shorter memory, of which there may be windows again.
  for (const Windows& w : program.windows) {
    flows[w.count].within = flows[w.of].within;
    if (flows[w.of].within != Role::memory) continue;
    flows[w.count].windows |= program.dimensions[w.of].role == Role::memory;
  }
}

// ---- Sizes --------------------------------------------------------------------------------------

// The dimensions that a size follows from, unless the caller sets it (R8). The length of a sequence
// comes with the call, even if the text says that M is X.
std::vector<int> factors_of(const Dimension& d) {
  if (d.role != Role::none) return {};
  if (!d.arguments.empty()) return {d.arguments[0].dim};
  std::vector<int> factors(d.product.begin(), d.product.end());
  for (const Node& size : d.fallback)
    visit(size, [&](const Node& node) {
      if (node.kind == NodeKind::size) factors.push_back(node.index);
    });
  return factors;
}

std::vector<bool> made_of(const Checked& program, Role role) {
  const size_t count = program.dimensions.size();
  std::vector<bool> found(count);
  Graph makes(count);
  for (size_t i = 0; i < count; ++i) {
    found[i] = program.dimensions[i].role == role;
    for (int factor : factors_of(program.dimensions[i]))
      makes[factor].push_back(static_cast<int>(i));
  }
  spread(found, makes);
  for (size_t i = 0; i < count; ++i) found[i] = found[i] && program.dimensions[i].role != role;
  return found;
}

}  // namespace

void find_dimensions(Checked& program) {
  find_heads(program);
  find_sequences(program);
  const std::vector<bool> queries = made_of(program, Role::query),
                          memory = made_of(program, Role::memory);
  for (size_t i = 0; i < queries.size(); ++i) {
    DimensionFlow& flow = program.flow.dimensions[i];
    flow.made_of_queries = queries[i], flow.made_of_memory = memory[i];
  }
}

}  // namespace tete
