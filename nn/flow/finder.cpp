#include "nn/flow/finder.hpp"

#include <algorithm>

namespace tete {

// ---- Reports ------------------------------------------------------------------------------------

void FlowFinder::report(const Place& place, int dim, Reads reads, Combination::How how) {
  const auto value = static_cast<int>(flow_.values.size());
  flow_.combinations.push_back({value, place, dim, reads, how});
}

void FlowFinder::report(const Node& node, int dim, Reads reads, Combination::How how) {
  report(node.place, dim, reads, how);
  Combination& made = flow_.combinations.back();
  const auto is_query = [&](int axis) {
    return axis >= 0 && program_.dimensions[axis].role == Role::query;
  };
  made.function = node.builtin;
  for (const Node& arg : node.args)
    for (int name : arg.names)
      if (name != dim && is_sequence(name) && !is_query(made.beside) && !crosses(name, dim))
        made.beside = name;
}

void FlowFinder::report_length(const Node& node, int dim, Combination::How how) {
  report(node, dim, Reads::length, how);
  report(node, dim, Reads::padding, how);
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

void FlowFinder::choose(const Node& node, int dim, const ValueFlow& by) {
  if (grows(dim)) report_length(node, dim, Combination::How::combines);
  report_clocks(node.place, dim, Combination::How::combines, by);
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
      const Hidden chain{outer.query, inner.memory, outer.number, outer.in_f32};
      if (chain.query != chain.memory.axis && !holds(hidden, chain)) hidden.push_back(chain);
    }
}

}  // namespace

void FlowFinder::reduce(const Node& node, const Names& dims, ValueFlow& out, Neutral neutral,
                        Combination::How how) {
  add_chains(out.hidden, neutral);
  // Two axes may limit each other, as where m is n: the one that stays limits the one that goes.
  std::erase_if(out.hidden, [&](const Hidden& hidden) { return dims.contains(hidden.query); });
  settle(out);
  lose_found(
      node.place, [&](int dim) { return dims.contains(dim); }, out);
  for (int dim : dims) {
    const bool is_of_sequence =
        within(dim) != Role::none || is_joined(dim) || has_clock(out.reads, dim);
    if (!is_of_sequence && !grows(dim)) continue;
    const auto is_neutral = [&](auto fits) {
      return std::any_of(out.hidden.begin(), out.hidden.end(), [&](const Hidden& hidden) {
        return hidden.memory == Clock{dim} && neutral(hidden.number) && fits(hidden.query);
      });
    };
    const bool is_past = is_neutral([](int query) { return query == Hidden::before; });
    if (!is_of_sequence) {
      if (!is_past || !out.past.contains(dim)) report_length(node, dim, how);
      continue;
    }
    if (has_clock(out.reads, dim)) report(node, dim, Reads::future, how);
    else if (!is_neutral([](int query) { return query >= 0; }))
      report(node, dim, Reads::length, how);
    if (!is_neutral([](int query) { return query == Hidden::padding; }))
      report(node, dim, Reads::padding, how);
    needs_all(dim, out);
  }
  for (int dim : dims) forget(dim, out);
}

// ---- Values -------------------------------------------------------------------------------------

void FlowFinder::find() {
  for (CheckedValue& value : program_.values)
    if (value.for_loss) find_loss(value);
    else flow_.values.push_back(flow_of(value));
  find_places();
  check_result();
}

// A row may follow from what is up to its own position, along its own axis: what else has positions
// of the sequence has those that come after it, too.
void FlowFinder::check_result() {
  const CheckedValue& result = program_.values[program_.result];
  const auto rows = std::find_if(result.dims.begin(), result.dims.end(),
                                 [&](int dim) { return is_sequence(dim); });
  for (const Clock& clock : flow_.values[program_.result].reads)
    if (rows == result.dims.end() || clock.axis != *rows) {
      report(result.place, clock.axis, Reads::future, Combination::How::keeps);
      flow_.combinations.back().value = program_.result;
    }
}

// A value that only the loss needs may read all positions, and no decoder makes it: padding alone
// matters.
void FlowFinder::find_loss(CheckedValue& value) {
  const size_t before = flow_.combinations.size();
  const bool reads_any = flow_.reads_any_memory, rereads = flow_.rereads;
  flow_.values.push_back(flow_of(value));
  flow_.reads_any_memory = reads_any, flow_.rereads = rereads;
  const auto added = flow_.combinations.begin() + static_cast<std::ptrdiff_t>(before);
  flow_.combinations.erase(
      std::remove_if(added, flow_.combinations.end(),
                     [](const Combination& c) { return c.reads != Reads::padding; }),
      flow_.combinations.end());
}

// The sequences that the value itself has rows of.
Sources FlowFinder::rows_of(const CheckedValue& value) const {
  Sources rows;
  for (const Names* names : {&value.dims, &value.names})
    for (int dim : *names) {
      rows.queries |= program_.dimensions[dim].role == Role::query;
      rows.memory |= program_.is_over({dim}, Role::memory);
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
      for (const Node& arg : program_.parameters[value.index].args)
        visit(arg, [&](const Node& part) {  // how it starts
          if (part.kind == NodeKind::size && grows(part.index))
            report(part, part.index, Reads::length, Combination::How::counts);
        });
      for (int dim : value.dims)  // new rows of it alone are not the first ones
        if (!is_sequence(dim)) needs_all(dim, flow);
      return flow;
    case ValueKind::same:
      return renamed(value);
    case ValueKind::call:
      flow = called(value);
      flow.from |= rows_of(value);
      finish(value.dims, flow);
      return flow;
    case ValueKind::statement:
      reads_earlier_queries_ = false;
      flow = flow_of(value.right);
      flow.from |= rows_of(value);
      merge(value, flow);
      keep_experts(value, {}, flow);
      finish(value.dims, flow);
      if (reads_earlier_queries_ && (flow.from.queries || !flow.by_row)) flow_.rereads = true;
  }
  return flow;
}

ValueFlow FlowFinder::input(const CheckedValue& value) const {
  const Sources rows = rows_of(value);
  ValueFlow flow{.from = {rows.queries, !rows.queries, true, true}};
  for (int dim : value.dims)
    if (within(dim) != Role::none) flow.reads.push_back({dim}), flow.padding.push_back({dim});
  return flow;
}

// A value over two memory axes has no rows that a decoder could add one by one, nor has one over
// something else that is as long.
void FlowFinder::finish(const Names& names, ValueFlow& out) const {
  int memory = 0;
  for (int name : names) {
    memory += within(name) == Role::memory;
    out.by_row &= within(name) != Role::none || !flow_.dimensions[name].made_of_memory;
  }
  out.by_row &= memory <= 1;
  settle(out);
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

// True if the function runs along `dim` and does not reduce it.
bool runs_along(const Node& node, int dim) {
  for (size_t i = 0; i < node.keys.size(); ++i)
    if (node.keys[i].dim == dim || node.keys[i].dims.contains(dim))
      return std::string_view(node.builtin->keys[i].name) != "reduced_dim";
  return false;
}

}  // namespace

ValueFlow FlowFinder::flow_of(Node& node) {
  if (node.kind == NodeKind::value) {
    ValueFlow used = use(node);
    keep_experts(node, used);
    return used;
  }
  if (node.kind == NodeKind::size && grows(node.index))
    report_length(node, node.index, Combination::How::counts);
  CallFlow call{node, {}, {}};
  std::vector<ValueFlow> all;
  for (Node& arg : node.args) {
    call.args.push_back(flow_of(arg));
    lose_found(
        node.place, [&](int dim) { return runs_along(node, dim); }, call.args.back());
    all.push_back(call.args.back());
  }
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
  lose_found(
      node.place, [&](int dim) { return !node.names.contains(dim); }, out);
  keep_experts(node, out);
  finish(node.names, out);
  return out;
}

void find_flow(Checked& program) {
  find_dimensions(program);
  FlowFinder(program, program.flow, false).find();
  if (!program.has_memory()) return;
  Flow apart{.dimensions = program.flow.dimensions};
  FlowFinder(program, apart, true).find();
  program.flow.combinations_apart = std::move(apart.combinations);
}

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
