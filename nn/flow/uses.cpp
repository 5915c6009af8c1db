// Uses of a value under other names, in parts, or by one position.
#include <algorithm>

#include "nn/flow/finder.hpp"

namespace tete {

ValueFlow FlowFinder::use(const Node& node) {
  ValueFlow flow = flow_.values[node.index];
  if (node.plain) return flow;
  const Names& dims = program_.values[node.index].dims;
  const auto is_changed = [&](int dim) {
    const int at = dims.find(dim);
    return at < 0 || node.axes[static_cast<size_t>(at)].parts != Names{dim};
  };
  lose_found(node.place, is_changed, flow);
  Names from, to;
  for (int i = 0; i < dims.size(); ++i) {
    const Node::RefAxis& axis = node.axes[static_cast<size_t>(i)];
    if (axis.pick >= 0) pick(node, dims[i], axis.pick, flow);
    else if (axis.parts.size() != 1) drop(node, dims[i], Combination::How::splits, flow);
    else from.push_back(dims[i]), to.push_back(axis.parts[0]);
  }
  rename(node.place, from, to, flow);
  finish(node.names, flow);
  return flow;
}

// Position 0 is before all others, so that every row may read it.
void FlowFinder::pick(const Node& node, int dim, Index at, ValueFlow& out) {
  const auto how = Combination::How::picks;
  if (!is_sequence(dim) && !has_clock(out.reads, dim)) {
    if (grows(dim)) report_length(node, dim, how);
  } else if (at > 0 || !is_sequence(dim)) {
    report_clocks(node.place, dim, how, out);
  } else {
    report(node, dim, Reads::first, how);
  }
  if (at > 0) reads_any(dim, out);
  else needs_all(dim, out);
  forget(dim, out);
}

// Earlier queries are memory for later ones. A decoder has them if they follow from the queries'
// inputs alone, and the statement makes rows of a memory that it caches. Pieces of a memory under
// another name follow from it anew.
void FlowFinder::change_role(int from, int to, ValueFlow& out) {
  const Role before = within(from), after = program_.dimensions[to].role;
  if (before == after || before == Role::none) return;
  if (before == Role::memory && after == Role::none) out.by_row = false;
  else if (after != Role::memory || (out.from.queries && out.from.memory)) flow_.rereads = true;
  else if (out.from.queries)
    out.from.queries = false, out.from.memory = reads_earlier_queries_ = true;
}

bool FlowFinder::crosses(int from, int to) const {
  return is_of_another(from) != is_of_another(to);
}

// X and M may be padded differently: a position of one that is read as one of the other may be
// padding. Rows of X that are read as M's are known to be X's here alone.
void FlowFinder::change_input(const Place& place, int from, int to, ValueFlow& out) {
  const DimensionFlow &before = flow_.dimensions[from], &after = flow_.dimensions[to];
  const auto report_renamed = [&](Reads reads) {
    report(place, from, reads, Combination::How::renames);
    flow_.combinations.back().beside = to;
  };
  const bool is_other = before.counts_m ? !after.counts_m : before.counts_x && !after.counts_x;
  if (is_other && has_clock(out.padding, from)) report_renamed(Reads::padding);
  if (!crosses(from, to) || before.counts_m_alone() || !has_clock(out.reads, from)) return;
  report_renamed(Reads::future);
  forget(from, out);
}

// Pieces are at other positions than those of the same number, unless each ends at its own.
bool FlowFinder::keeps_positions(int from, int to) {
  if (const auto joined = joined_.find(from); joined != joined_.end())
    return !is_sequence(to) && counts_joined(to, joined->second);
  if (joined_.contains(to)) return false;
  const auto known = windows_.find(from);
  if (known == windows_.end()) return !windows_.contains(to);
  if (!is_sequence(to)) return counts_windows(to, known->second);
  const auto is_given = [&](WindowKey key) {
    return !known->second[static_cast<size_t>(key)].value.empty();
  };
  return !is_given(WindowKey::right) && !is_given(WindowKey::stride);
}

// All names change at once, as in T[a=(b), b=(a)].
void FlowFinder::rename(const Place& place, const Names& from, const Names& to, ValueFlow& out) {
  const auto how = Combination::How::shifts;
  for (int i = 0; i < from.size(); ++i) {
    if (from[i] == to[i]) continue;
    if (has_places(from[i], out) && is_sequence(to[i])) misplace(place, from[i], out);
    change_role(from[i], to[i], out);
    change_input(place, from[i], to[i], out);
    if (keeps_positions(from[i], to[i])) continue;
    report(place, from[i], Reads::future, how);
    report(place, from[i], Reads::padding, how);
    forget(from[i], out);
  }
  const auto name = [&](int axis) {
    const int at = from.find(axis);
    return at < 0 ? axis : to[at];
  };
  const auto clock = [&](const Clock& c) {
    return Clock{name(c.axis), name(c.place), c.found, c.pieces};
  };
  for (int i = 0; i < from.size(); ++i)
    if (from[i] != to[i]) rename_places(from[i], to[i], name);
  change_clocks(out, clock);
  for (Hidden& h : out.hidden) h.query = name(h.query), h.memory = clock(h.memory);
  for (int& axis : out.past) axis = name(axis);
}

// Another name of a value, which may call its dimensions otherwise.
ValueFlow FlowFinder::renamed(const CheckedValue& value) {
  ValueFlow flow = flow_.values[value.index];
  const Names& before = program_.values[value.index].dims;
  lose_found(
      value.place, [&](int dim) { return value.dims.find(dim) != before.find(dim); }, flow);
  rename(value.place, before, value.dims, flow);
  keep_experts(value, before, flow);
  return flow;
}

// Merges names on the left of a statement: their positions are in no order that is known.
void FlowFinder::merge(const CheckedValue& value, ValueFlow& out) {
  lose_found(
      value.place, [&](int dim) { return !value.dims.contains(dim); }, out);
  for (int name : value.names) {
    if (value.dims.contains(name)) continue;
    report_clocks(value.place, name, Combination::How::merges, out);
    if (within(name) != Role::none) out.by_row = false;
    forget(name, out);
  }
}

// ---- Joined rows ------------------------------------------------------------------------------

bool FlowFinder::counts_joined(int dim, const Names& parts) {
  if (is_sequence(dim) || windows_.contains(dim) || routed_.contains(dim)) return false;
  return joined_.try_emplace(dim, parts).first->second == parts;
}

bool FlowFinder::joins(int dim, const Names& parts, ValueFlow& out) {
  const auto is_front = [&](int part) {
    const bool has_own = has_clock(out.reads, part) || has_clock(out.padding, part);
    return is_sequence(part) ? is_of_another(part) : !grows(part) && !has_own;
  };
  const int last = parts.back();
  const auto front = std::count_if(parts.begin(), parts.end(), is_front);
  const bool in_order = front == parts.size() - 1 && is_sequence(last) && !is_front(last);
  if (!in_order || parts.contains(dim) || is_of_another(dim) || !counts_joined(dim, parts))
    return false;
  flow_.rereads |= flow_.dimensions[dim].made_of_queries;
  for (int part : parts) {
    count_rows(part, dim);
    if (is_of_another(part)) std::erase(out.reads, Clock{part});
  }
  change_clocks(
      out, [&](const Clock& clock) { return parts.contains(clock.axis) ? Clock{dim} : clock; });
  return true;
}

// ---- Positions that a value holds -------------------------------------------------------------

Clock FlowFinder::found_by(const Node& node) const {
  if (node.kind != NodeKind::value || !node.plain || node.element != Element::whole) return {-1};
  for (int name : node.names)
    if (!grows(name)) return {name, -1, node.index};
  return {-1};
}

// They are those of the value's own rows: what lacks one of its axes, or has it under another name,
// is read at positions that are not known.
void FlowFinder::lose_found(const Place& place, const Changed& changed, ValueFlow& out) {
  const auto is_lost = [&](const Clock& clock) {
    if (clock.found < 0) return false;
    const Names& dims = program_.values[clock.found].dims;
    return std::any_of(dims.begin(), dims.end(), changed);
  };
  std::erase_if(out.hidden, [&](const Hidden& hidden) { return is_lost(hidden.memory); });
  for (const Clocks& clocks : {out.reads, out.padding})
    for (const Clock& clock : clocks)
      if (is_lost(clock)) {
        report_clocks(place, clock.axis, Combination::How::unties, out);
        forget(clock.axis, out);
      }
}

// ---- Windows ----------------------------------------------------------------------------------

// Sizes that the text gives alike are one as long as the caller sets neither.
bool FlowFinder::same_size(int a, int b) {
  const int x = source_of(program_, a), y = source_of(program_, b);
  if (x == y) return true;
  const auto number = [&](int dim) -> const Node* {
    const std::vector<Node>& size = program_.dimensions[dim].fallback;
    return size.empty() || size[0].kind != NodeKind::number ? nullptr : &size[0];
  };
  if (!number(x) || !number(y) || number(x)->number != number(y)->number) return false;
  if (!apart_)
    program_.conditions.push_back({ConditionKind::equal, x, {y}, 0, number(x)->place, {}});
  return true;
}

bool FlowFinder::same_dimension(int a, int b) const {
  return source_of(program_, a) == source_of(program_, b);
}

bool FlowFinder::same_number(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.number != b.number || a.op != b.op) return false;
  if (a.kind == NodeKind::size) return same_size(a.index, b.index);
  return std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(),
                    [&](const Node& x, const Node& y) { return same_number(x, y); });
}

// into= is the axis that is compared, and the places in a window.
bool FlowFinder::same_key(const Node::Key& a, const Node::Key& b) {
  if (a.dim >= 0 && !same_dimension(a.dim, b.dim)) return false;
  if (!a.dims.empty() && !same_size(a.dims[1], b.dims[1])) return false;
  return std::equal(a.value.begin(), a.value.end(), b.value.begin(), b.value.end(),
                    [&](const Node& x, const Node& y) { return same_number(x, y); });
}

int FlowFinder::latest_piece(int dim, const Node& number) {
  const auto known = windows_.find(dim);
  if (known == windows_.end() || !is_sequence(known->second[0].dim)) return -1;
  const auto key = [&](WindowKey k) -> const Node::Key& {
    return known->second[static_cast<size_t>(k)];
  };
  const bool divides = number.kind == NodeKind::operation && number.op == Operator::floor_divide;
  if (!divides || key(WindowKey::stride).value.empty() || !key(WindowKey::right).value.empty() ||
      !ends_at_row(key(WindowKey::left), key(WindowKey::into).dims[1]) ||
      !same_number(number.args[1], key(WindowKey::stride).value[0]))
    return -1;
  return latest_position(number.args[0]);
}

bool ends_at_row(const Node::Key& left, int places) {
  if (left.value.empty() || left.value[0].op != Operator::subtract ||
      left.value[0].args.size() != 2)
    return false;
  const Node &width = left.value[0].args[0], &one = left.value[0].args[1];
  return width.kind == NodeKind::size && width.index == places && one.kind == NodeKind::number &&
         one.number == 1;
}

bool FlowFinder::counts_windows(int dim, std::span<const Node::Key> keys) {
  if (joined_.contains(dim)) return false;
  const auto [known, is_first] = windows_.try_emplace(dim, keys);
  const auto& before = known->second;
  return is_first || std::equal(before.begin(), before.end(), keys.begin(), keys.end(),
                                [&](const auto& a, const auto& b) { return same_key(a, b); });
}

void FlowFinder::count(int dim, const Clock& at, ValueFlow& out) {
  if (within(dim) == Role::query) flow_.rereads = true;
  if (!is_sequence(dim)) out.by_row = false;  // windows of windows
  change_clocks(out, [&](const Clock& clock) { return clock.axis == dim ? at : clock; });
}

void FlowFinder::report_sizes(const Node& number) {
  visit(number, [&](const Node& node) {
    if (node.kind == NodeKind::size && grows(node.index))
      report_length(node, node.index, Combination::How::counts);
  });
}

}  // namespace tete
