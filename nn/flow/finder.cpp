#include "nn/flow/finder.hpp"

#include <algorithm>

namespace tete {

Sources& Sources::operator|=(const Sources& other) {
  queries |= other.queries, memory |= other.memory;
  data |= other.data, inputs |= other.inputs, learned |= other.learned;
  return *this;
}

// ---- Clocks -------------------------------------------------------------------------------------

namespace {

void add(Clocks& clocks, const Clock& clock) {
  if (std::find(clocks.begin(), clocks.end(), clock) == clocks.end()) clocks.push_back(clock);
}

// True if `clock` is never later than `limit`: the same one, or a place of its window.
bool is_within(const Clock& clock, const Clock& limit) {
  return clock.axis == limit.axis && (limit.place < 0 || clock.place == limit.place);
}

// Applies `change` to each clock; those for which it returns no axis are left out.
template <class Change>
void change_clocks(Clocks& clocks, const Change& change) {
  Clocks changed;
  for (const Clock& clock : clocks)
    if (const Clock to = change(clock); to.axis >= 0) add(changed, to);
  clocks = changed;
}
template <class Change>
void change_clocks(ValueFlow& flow, const Change& change) {
  change_clocks(flow.reads, change);
  change_clocks(flow.padding, change);
}

}  // namespace

bool has_clock(const Clocks& clocks, int axis) {
  return std::any_of(clocks.begin(), clocks.end(),
                     [&](const Clock& clock) { return clock.axis == axis; });
}

// A value that is not hidden has the memory's position at most at the query's, and not in padding.
void settle(ValueFlow& flow) {
  for (size_t pass = 0; pass < flow.hidden.size(); ++pass)
    for (const Hidden& hidden : flow.hidden)
      if (hidden.query != Hidden::before)
        change_clocks(hidden.query == Hidden::padding ? flow.padding : flow.reads,
                      [&](const Clock& clock) {
                        if (!is_within(clock, hidden.memory)) return clock;
                        return Clock{hidden.query == Hidden::padding ? -1 : hidden.query};
                      });
}

ValueFlow joined(const std::vector<ValueFlow>& flows) {
  ValueFlow all;
  for (const ValueFlow& flow : flows) {
    all.from |= flow.from;
    for (const Clock& clock : flow.reads) add(all.reads, clock);
    for (const Clock& clock : flow.padding) add(all.padding, clock);
    all.by_row &= flow.by_row;
  }
  return all;
}

void FlowFinder::forget(int dim, ValueFlow& out) {
  change_clocks(out, [&](const Clock& clock) {
    return clock.axis == dim ? Clock{-1} : clock.place == dim ? Clock{clock.axis} : clock;
  });
  std::erase_if(out.hidden, [&](const Hidden& hidden) { return hidden.mentions(dim); });
  Names past;
  for (int axis : out.past)
    if (axis != dim) past.push_back(axis);
  out.past = past;
}

// ---- Reports ------------------------------------------------------------------------------------

void FlowFinder::report(const Place& place, int dim, Reads reads, Combination::How how) {
  const auto value = static_cast<int>(flow_.values.size());
  flow_.combinations.push_back({value, place, dim, reads, how});
}
void FlowFinder::report(const Node& node, int dim, Reads reads, Combination::How how) {
  report(node.place, dim, reads, how);
}

void FlowFinder::report_clocks(const Place& place, int dim, Combination::How how,
                               const ValueFlow& out) {
  if (has_clock(out.reads, dim)) report(place, dim, Reads::future, how);
  if (has_clock(out.padding, dim)) report(place, dim, Reads::padding, how);
}

void FlowFinder::drop(const Node& node, int dim, Combination::How how, ValueFlow& out) {
  report_clocks(node.place, dim, how, out);
  needs_all(dim, out);
  forget(dim, out);
}

bool FlowFinder::grows(int dim) const {
  const DimensionFlow& flow = flow_.dimensions[dim];
  return flow.within != Role::none || flow.made_of_queries || flow.made_of_memory;
}

void FlowFinder::needs_all(int dim, ValueFlow& out) {
  if (within(dim) == Role::memory) out.by_row = false;
  if (within(dim) == Role::query) flow_.rereads = true;
}

void FlowFinder::reads_any(int dim, ValueFlow& out) {
  flow_.reads_any_memory |= within(dim) == Role::memory;
  needs_all(dim, out);
}

namespace {

// Numbers hidden where m is after l, and where l is after n, are hidden where m is after n.
void add_chains(std::vector<Hidden>& hidden, FlowFinder::Neutral neutral) {
  for (size_t i = 0; i < hidden.size(); ++i)
    for (size_t k = 0; k < hidden.size(); ++k) {
      const Hidden &outer = hidden[i], &inner = hidden[k];
      if (inner.query < 0 || outer.memory != Clock{inner.query} || outer.query < 0) continue;
      if (!neutral(outer.number) || outer.number != inner.number) continue;
      const Hidden chain{outer.query, inner.memory, outer.number};
      if (chain.query != chain.memory.axis && !holds(hidden, chain)) hidden.push_back(chain);
    }
}

}  // namespace

void FlowFinder::reduce(const Node& node, const Names& dims, ValueFlow& out, Neutral neutral) {
  settle(out);
  add_chains(out.hidden, neutral);
  const auto how = Combination::How::combines;
  for (int dim : dims) {
    if (!grows(dim)) continue;
    const auto is_neutral = [&](auto fits) {
      return std::any_of(out.hidden.begin(), out.hidden.end(), [&](const Hidden& hidden) {
        return hidden.memory == Clock{dim} && neutral(hidden.number) && fits(hidden.query);
      });
    };
    const bool is_past = is_neutral([](int query) { return query == Hidden::before; });
    if (within(dim) == Role::none) {
      if (!is_past || !out.past.contains(dim)) report(node, dim, Reads::length, how);
      continue;
    }
    if (has_clock(out.reads, dim)) report(node, dim, Reads::future, how);
    else if (!is_neutral([&](int query) { return query >= 0 && !dims.contains(query); }))
      report(node, dim, Reads::length, how);
    if (!is_neutral([](int query) { return query == Hidden::padding; }))
      report(node, dim, Reads::padding, how);
    needs_all(dim, out);
  }
  for (int dim : dims) forget(dim, out);
}

// ---- Values -------------------------------------------------------------------------------------

void FlowFinder::find() {
  find_dimensions(program_);
  for (CheckedValue& value : program_.values) flow_.values.push_back(flow_of(value));
}

// The sequences that the value itself has rows of.
Sources FlowFinder::rows_of(const CheckedValue& value) const {
  Sources rows;
  for (const Names* names : {&value.dims, &value.names})
    for (int dim : *names) {
      rows.queries |= program_.dimensions[dim].role == Role::query;
      rows.memory |= program_.dimensions[dim].role == Role::memory || flow_.dimensions[dim].windows;
    }
  return rows;
}

ValueFlow FlowFinder::flow_of(CheckedValue& value) {
  ValueFlow flow;
  switch (value.kind) {
    case ValueKind::input:
      return input(value);
    case ValueKind::parameter:
      flow.from.learned = !program_.parameters[value.index].fixed;
      return flow;
    case ValueKind::same:
      return renamed(value);
    case ValueKind::statement:
      flow = flow_of(value.right);
      flow.from |= rows_of(value);
      merge(value, flow);
      finish(value.dims, flow);
  }
  return flow;
}

ValueFlow FlowFinder::input(const CheckedValue& value) const {
  const Sources rows = rows_of(value);
  ValueFlow flow{.from = {rows.queries, !rows.queries, false, true, true}};
  for (int dim : value.dims)
    if (within(dim) != Role::none) {
      flow.from.data = true;
      flow.reads.push_back({dim}), flow.padding.push_back({dim});
    }
  return flow;
}

// Another name of a value, which may call its dimensions otherwise.
ValueFlow FlowFinder::renamed(const CheckedValue& value) {
  ValueFlow flow = flow_.values[value.index];
  rename(value.place, program_.values[value.index].dims, value.dims, flow);
  return flow;
}

// Merges names on the left of a statement: their positions are in no order that is known.
void FlowFinder::merge(const CheckedValue& value, ValueFlow& out) {
  for (int name : value.names) {
    if (value.dims.contains(name)) continue;
    report_clocks(value.place, name, Combination::How::merges, out);
    if (within(name) != Role::none) out.by_row = false;
    forget(name, out);
  }
}

// A value over two memory axes has no rows that a decoder could add one by one.
void FlowFinder::finish(const Names& names, ValueFlow& out) const {
  int memory = 0;
  for (int name : names) memory += within(name) == Role::memory;
  out.by_row &= memory <= 1;
  settle(out);
}

// ---- Uses ---------------------------------------------------------------------------------------

ValueFlow FlowFinder::use(const Node& node) {
  ValueFlow flow = flow_.values[node.index];
  if (node.plain) return flow;
  const Names& dims = program_.values[node.index].dims;
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
    if (grows(dim)) report(node, dim, Reads::length, how);
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
// inputs alone.
void FlowFinder::change_role(int from, int to, ValueFlow& out) {
  const Role before = program_.dimensions[from].role, after = program_.dimensions[to].role;
  if (before == after || before == Role::none) return;
  if (after != Role::memory || (out.from.queries && out.from.memory)) flow_.rereads = true;
  else if (out.from.queries) out.from.queries = false, out.from.memory = true;
}

// All names change at once, as in T[a=(b), b=(a)].
void FlowFinder::rename(const Place& place, const Names& from, const Names& to, ValueFlow& out) {
  const auto how = Combination::How::shifts;
  for (int i = 0; i < from.size(); ++i) {
    if (from[i] == to[i]) continue;
    change_role(from[i], to[i], out);
    const auto known = windows_.find(from[i]);
    if (known != windows_.end() ? counts_windows(to[i], known->second) : !windows_.contains(to[i]))
      continue;
    report(place, from[i], Reads::future, how);
    report(place, from[i], Reads::padding, how);
    forget(from[i], out);
  }
  const auto name = [&](int axis) {
    const int at = from.find(axis);
    return at < 0 ? axis : to[at];
  };
  const auto clock = [&](const Clock& c) { return Clock{name(c.axis), name(c.place)}; };
  change_clocks(out, clock);
  for (Hidden& h : out.hidden) h.query = name(h.query), h.memory = clock(h.memory);
  for (int& axis : out.past) axis = name(axis);
}

// ---- Windows ----------------------------------------------------------------------------------

namespace {

bool same_number(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.number != b.number || a.index != b.index || a.op != b.op) return false;
  return std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(), same_number);
}

bool same_key(const Node::Key& a, const Node::Key& b) {
  return a.dim == b.dim && a.dims == b.dims &&
         std::equal(a.value.begin(), a.value.end(), b.value.begin(), b.value.end(), same_number);
}

}  // namespace

bool FlowFinder::counts_windows(int dim, std::span<const Node::Key> keys) {
  const auto [known, is_first] = windows_.try_emplace(dim, keys);
  const auto& before = known->second;
  return is_first || std::equal(before.begin(), before.end(), keys.begin(), keys.end(), same_key);
}

void FlowFinder::count(int dim, const Clock& at, ValueFlow& out) {
  if (within(dim) == Role::query) flow_.rereads = true;
  if (!is_sequence(dim)) out.by_row = false;  // windows of windows
  change_clocks(out, [&](const Clock& clock) { return clock.axis == dim ? at : clock; });
}

void FlowFinder::report_sizes(const Node& number) {
  visit(number, [&](const Node& node) {
    if (node.kind == NodeKind::size && grows(node.index))
      report(node, node.index, Reads::length, Combination::How::counts);
  });
}

// ---- Expressions --------------------------------------------------------------------------------

namespace {

// An axis counts back if every argument that has it counts back along it.
Names shared_past(const CallFlow& call) {
  const auto counts_back = [&](int axis) {
    for (size_t i = 0; i < call.args.size(); ++i)
      if (call.node.args[i].names.contains(axis) && !call.args[i].past.contains(axis)) return false;
    return true;
  };
  Names past;
  for (const ValueFlow& arg : call.args)
    for (int axis : arg.past)
      if (!past.contains(axis) && counts_back(axis)) past.push_back(axis);
  return past;
}

}  // namespace

ValueFlow FlowFinder::flow_of(Node& node) {
  if (node.kind == NodeKind::value) return use(node);
  if (node.kind == NodeKind::size && grows(node.index))
    report(node, node.index, Reads::length, Combination::How::counts);
  CallFlow call{node, {}, {}};
  std::vector<ValueFlow> all;
  for (Node& arg : node.args) all.push_back(call.args.emplace_back(flow_of(arg)));
  const bool counts = node.builtin && node.builtin->reads_earlier_rows;
  for (Node::Key& key : node.keys) {
    const bool is_given = !key.value.empty() && !counts;
    call.keys.push_back(is_given ? flow_of(key.value[0]) : ValueFlow{});
    all.push_back(call.keys.back());
  }
  ValueFlow out = joined(all);
  out.past = shared_past(call);
  if (node.builtin && node.builtin->flow) node.builtin->flow(*this, call, out);
  else compute_hidden(call, out);
  finish(node.names, out);
  return out;
}

void find_flow(Checked& program) { FlowFinder(program).find(); }

// ---- For readers --------------------------------------------------------------------------------

Sources sources_of(const Node& node, const Flow& flow) {
  Sources from;
  visit(node, [&](const Node& part) {
    if (part.kind == NodeKind::value) from |= flow.values[part.index].from;
  });
  return from;
}

void mark_sources(const Checked& program, std::vector<bool>& marked,
                  const std::function<bool(int)>& ends) {
  for (int i = static_cast<int>(marked.size()); i-- > 0;)
    if (marked[i] && !(ends && ends(i)))
      for (int used : program.values[i].uses) marked[used] = true;
}

void mark_results(const Checked& program, std::vector<bool>& marked,
                  const std::function<bool(int)>& ends) {
  for (int i = 0; i < static_cast<int>(marked.size()); ++i)
    for (int used : program.values[i].uses)
      if (marked[used] && !(ends && ends(used))) marked[i] = true;
}

}  // namespace tete
