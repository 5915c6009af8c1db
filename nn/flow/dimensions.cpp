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

// The dimensions that `begins` is true for, and all that these lead to.
template <class Begins>
std::vector<bool> reached(const Checked& program, const Graph& next, const Begins& begins) {
  std::vector<bool> marked;
  for (const Dimension& d : program.dimensions) marked.push_back(begins(d));
  spread(marked, next);
  return marked;
}

enum class Steps { names, all };

// The dimensions under which the positions of each one go on: another name of it, in a call or by
// renaming; and, of all steps, its parts and the windows over it. A sequence stays of its own.
Graph steps_of(const Checked& program, Steps which) {
  Graph next(program.dimensions.size());
  const auto add = [&](int from, int to) {
    if (program.dimensions[to].role == Role::none) next[from].push_back(to);
  };
  for (const Condition& c : program.conditions) {
    if (c.kind == ConditionKind::equal) add(c.others[0], c.dim);
    if (c.kind == ConditionKind::product && (c.others.size() == 1 || which == Steps::all))
      for (int part : c.others) add(c.dim, part);
  }
  if (which == Steps::all)
    for (const Windows& w : program.windows) add(w.of, w.count);
  return next;
}

void find_sequences(Checked& program) {
  const Graph all = steps_of(program, Steps::all), names = steps_of(program, Steps::names);
  const auto within = [&](Role role) {
    return reached(program, all, [&](const Dimension& d) { return d.role == role; });
  };
  const std::vector<bool> queries = within(Role::query), memory = within(Role::memory);
  std::vector<int> pieces(all.size(), -1);
  std::vector<bool> windows(all.size());
  for (size_t i = 0; i < program.windows.size(); ++i) {
    const Windows& w = program.windows[i];
    std::vector<bool> counted(all.size());
    counted[w.count] = true;
    spread(counted, names);
    for (size_t dim = 0; dim < counted.size(); ++dim)
      if (counted[dim] && pieces[dim] < 0) pieces[dim] = static_cast<int>(i);
    if (program.dimensions[w.of].role == Role::memory) windows[w.count] = true;
  }
  spread(windows, names);
  for (size_t i = 0; i < all.size(); ++i)
    program.flow.dimensions.push_back({.within = queries[i]  ? Role::query
                                                 : memory[i] ? Role::memory
                                                             : Role::none,
                                       .pieces = pieces[i],
                                       .windows = windows[i]});
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
  if (!factors.empty() || !d.fallback.empty()) return factors;
  if (d.outer >= 0) factors.push_back(d.outer);
  if (!d.results.empty()) factors.push_back(d.results[0].dim);
  return factors;
}

// The dimensions whose sizes follow from each one's.
Graph makes_of(const Checked& program) {
  Graph makes(program.dimensions.size());
  for (size_t i = 0; i < makes.size(); ++i)
    for (int factor : factors_of(program.dimensions[i]))
      makes[factor].push_back(static_cast<int>(i));
  return makes;
}

void find_lengths(Checked& program) {
  const Graph makes = makes_of(program);
  Graph counts = steps_of(program, Steps::all);
  for (size_t i = 0; i < makes.size(); ++i)
    counts[i].insert(counts[i].end(), makes[i].begin(), makes[i].end());
  const auto made_of = [&](Role role) {
    return reached(program, makes, [&](const Dimension& d) { return d.role == role; });
  };
  const auto counted = [&](Role input) {
    return reached(program, counts, [&](const Dimension& d) { return d.sequence == input; });
  };
  const std::vector<bool> queries = made_of(Role::query), memory = made_of(Role::memory),
                          x = counted(Role::query), m = counted(Role::memory);
  for (size_t i = 0; i < makes.size(); ++i) {
    DimensionFlow& flow = program.flow.dimensions[i];
    const Role role = program.dimensions[i].role;
    flow.made_of_queries = queries[i] && role != Role::query;
    flow.made_of_memory = memory[i] && role != Role::memory;
    flow.counts_x = x[i], flow.counts_m = m[i];
  }
}

// The dimension that is `d` under another name of the same sequence, or of the same size; or -1.
int other_name(const Checked& program, int dim) {
  const Dimension& d = program.dimensions[dim];
  if (!d.arguments.empty()) return d.arguments[0].dim;
  if (!d.fallback.empty()) return d.fallback[0].kind == NodeKind::size ? d.fallback[0].index : -1;
  // A name is renamed before its other name is there, a call returns a dimension declared after.
  if (d.role != Role::none && !d.results.empty())
    return d.results[0].dim < dim ? d.results[0].dim : -1;
  return d.product.empty() ? d.outer : -1;
}

}  // namespace

// Ends after as many steps as there are dimensions: names may lead in a circle.
int source_of(const Checked& program, int dim) {
  for (size_t step = 0; step < program.dimensions.size(); ++step) {
    const int other = other_name(program, dim);
    const Role role = program.dimensions[dim].role;
    if (other < 0 || (role != Role::none && program.dimensions[other].role != role)) break;
    dim = other;
  }
  return dim;
}

void find_dimensions(Checked& program) {
  find_heads(program);
  find_sequences(program);
  find_lengths(program);
}

}  // namespace tete
