// Facts that follow from a program's statements: each value's last use, the flow, memory orders and
// the tile.
#include <algorithm>

#include "nn/language/check/checker.hpp"

namespace tete {

namespace {

// ---- Uses -------------------------------------------------------------------------------------

// Returns which values are used.
std::vector<bool> find_uses(Checked& program) {
  std::vector<bool> seen(program.values.size(), false);
  seen[program.result] = true;
  for (size_t i = program.values.size(); i-- > 0;) {
    CheckedValue& value = program.values[i];
    if (value.kind == ValueKind::same) value.uses.push_back(value.index);
    if (value.kind == ValueKind::statement)
      visit(value.right, [&](const Node& node) {
        if (node.kind == NodeKind::value) value.uses.push_back(node.index);
      });
    if (value.kind == ValueKind::call)
      for (const CheckedCall::Passed& passed : program.calls[value.index].passed)
        value.uses.push_back(passed.value);
    for (int used : value.uses)
      if (!seen[used]) {
        seen[used] = true;
        value.finished.push_back(used);
      }
  }
  return seen;
}

// A def that is handed a parameter may leave it to a slot that leaves it, too.
void refuse_unread(const Checked& program, const std::vector<bool>& used) {
  for (const CheckedParameter& parameter : program.parameters)
    if (!used[parameter.value])
      fail_at(
          {program.values[parameter.value].place}, "the parameter '", parameter.name,
          "' is never used: what fills a slot leaves it in the def that it is passed to; pass it "
          "to the slot itself");
}

void find_loss_values(Checked& program) {
  std::vector<bool> needed(program.values.size(), false);
  needed[program.result] = true;
  mark_sources(program, needed);
  for (size_t i = 0; i < needed.size() && !program.losses.empty(); ++i)
    program.values[i].for_loss = !needed[i] && !program.is_argument(static_cast<int>(i));
}

}  // namespace

AxisPair masked_pair(const Names& names, int dim, const std::vector<Dimension>& dimensions) {
  const Role role = dimensions[dim].role;
  if (role == Role::none || !names.contains(dim)) return {};
  int other = -1;
  for (int name : names)
    if (dimensions[name].role != Role::none && dimensions[name].role != role) other = name;
  if (other < 0) return {};
  return role == Role::memory ? AxisPair{other, dim} : AxisPair{dim, other};
}

bool is_causal_pair(const AxisPair& axes, const std::vector<Dimension>& dimensions, bool apart) {
  return !apart || (dimensions[axes.query].sequence == Role::query &&
                    dimensions[axes.memory].sequence == Role::query);
}

Short<int> layout_of(const Names& names, const std::vector<Dimension>& dimensions) {
  const auto dim = [&](int i) -> const Dimension& { return dimensions[names[i]]; };
  int query = -1, memory = -1, sequence = 0, heads = 0;
  for (int i = names.size() - 1; i >= 0; --i) {
    if (dim(i).role == Role::query) query = i;
    if (dim(i).role == Role::memory) memory = i;
    if (dim(i).role != Role::none) sequence = i;
    heads += dim(i).head;
  }
  const bool mixes = query < 0 && heads >= 2 && heads + 1 == names.size();
  Short<int> order;
  if (memory >= 0 && (query >= 0 || mixes)) {
    for (int i = 0; i < names.size(); ++i)
      if (i != query && i != memory) order.push_back(i);
    if (query >= 0) order.push_back(query);
    order.push_back(memory);
    return order;
  }
  if (!names.empty()) order.push_back(sequence);
  for (bool head : {true, false})
    for (int i = 0; i < names.size(); ++i)
      if (i != sequence && dim(i).head == head) order.push_back(i);
  return order;
}

void analyse(Checked& program) {
  const auto before = find_pairwise(program);
  refuse_unread(program, find_uses(program));
  find_loss_values(program);
  find_flow(program);
  for (CheckedValue& value : program.values) {
    const bool is_statement = value.kind == ValueKind::statement;
    value.layout = layout_of(is_statement ? value.names : value.dims, program.dimensions);
  }
  program.leak = leak_of(program, program.is_apart());
  find_strips(program);
  program.tile = find_tile(program);
  find_fusions(program);
  if (!program.tile.inside.empty()) program.pairwise = before;
}

}  // namespace tete
