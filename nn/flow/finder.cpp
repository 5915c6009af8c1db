#include "nn/flow/finder.hpp"

#include <algorithm>

namespace tete {

Sources& Sources::operator|=(const Sources& other) {
  queries |= other.queries, memory |= other.memory;
  data |= other.data, inputs |= other.inputs, learned |= other.learned;
  return *this;
}

namespace {

bool contains(const AxisPairs& pairs, const AxisPair& pair) {
  return std::find(pairs.begin(), pairs.end(), pair) != pairs.end();
}

AxisPairs hidden_by(Operator op, const std::vector<ValueFlow>& args) {
  switch (op) {
    case Operator::multiply:
    case Operator::both:
      return hidden_in_any(args);
    case Operator::divide:
      return args[0].hidden;
    case Operator::add:
    case Operator::subtract:
    case Operator::minus:
    case Operator::either:
      return hidden_in_all(args);
    default:
      return {};
  }
}

// The pairs of a use or another name, whose axis i is called names[i]: each part, if it is split;
// nothing, if one element is picked.
AxisPairs renamed(const AxisPairs& pairs, const Names& dims, const std::vector<Names>& names) {
  const auto new_names = [&](int dim) {
    const int at = dims.find(dim);
    return at < 0 ? Names{dim} : names[static_cast<size_t>(at)];
  };
  AxisPairs all;
  for (const AxisPair& pair : pairs)
    for (int query : new_names(pair.query))
      for (int memory : new_names(pair.memory)) all.push_back({query, memory});
  return all;
}

}  // namespace

AxisPairs hidden_in_any(const std::vector<ValueFlow>& flows) {
  AxisPairs pairs;
  for (const ValueFlow& flow : flows)
    for (const AxisPair& pair : flow.hidden)
      if (!contains(pairs, pair)) pairs.push_back(pair);
  return pairs;
}

AxisPairs hidden_in_all(const std::vector<ValueFlow>& flows) {
  AxisPairs pairs = flows[0].hidden;
  for (const ValueFlow& flow : flows)
    std::erase_if(pairs, [&](const AxisPair& pair) { return !contains(flow.hidden, pair); });
  return pairs;
}

AxisPairs FlowFinder::pairs_of(const Names& names) const {
  AxisPairs pairs;
  for (int query : names)
    for (int memory : names)
      if (within(query) == Role::query && within(memory) == Role::memory)
        pairs.push_back({query, memory});
  return pairs;
}

void FlowFinder::combined(const Node& node, int dim, const Node& arg, const ValueFlow& flow,
                          bool is_sum) {
  if (within(dim) == Role::none || !arg.names.contains(dim)) return;
  if (within(dim) == Role::memory && !flow.hidden.empty() && is_sum) return;
  const auto value = static_cast<int>(flow_.values.size());
  flow_.combinations.push_back({value, node.place, dim, false, flow.from.data});
}

void FlowFinder::find() {
  find_dimensions(program_);
  for (const CheckedValue& value : program_.values) flow_.values.push_back(flow_of(value));
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

ValueFlow FlowFinder::flow_of(const CheckedValue& value) {
  const Sources rows = rows_of(value);
  ValueFlow flow;
  switch (value.kind) {
    case CheckedValue::Kind::input:
      flow.from = {rows.queries, !rows.queries, false, true, true};
      for (int dim : value.dims) flow.from.data |= within(dim) != Role::none;
      break;
    case CheckedValue::Kind::parameter:
      flow.from.learned = !program_.parameters[value.index].fixed;
      break;
    case CheckedValue::Kind::same: {
      flow = flow_.values[value.index];
      std::vector<Names> names;
      for (int dim : value.dims) names.push_back({dim});
      flow.hidden = renamed(flow.hidden, program_.values[value.index].dims, names);
      const bool queries_alone = flow.from.queries && !flow.from.memory;
      if (queries_alone && rows.memory && !rows.queries)  // M is X
        flow.from.queries = false, flow.from.memory = true;
      break;
    }
    case CheckedValue::Kind::statement:
      flow = flow_of(value.right);
      flow.from |= rows;
      break;
  }
  return flow;
}

// The flow of a use of a tensor. A picked position of a sequence is read by all rows.
ValueFlow FlowFinder::use(const Node& node) {
  ValueFlow flow = flow_.values[node.index];
  if (node.plain) return flow;
  const Names& dims = program_.values[node.index].dims;
  std::vector<Names> names;
  for (const Node::RefAxis& axis : node.axes) {
    const int dim = dims[static_cast<int>(names.size())];
    if (axis.pick >= 0 && within(dim) != Role::none)
      flow_.combinations.push_back(
          {static_cast<int>(flow_.values.size()), node.place, dim, true, flow.from.data});
    names.push_back(axis.parts);
  }
  flow.hidden = renamed(flow.hidden, dims, names);
  return flow;
}

ValueFlow FlowFinder::flow_of(const Node& node) {
  if (node.kind == Node::Kind::value) return use(node);
  CallFlow call{node, {}, {}};
  ValueFlow flow;
  for (const Node& arg : node.args) {
    call.args.push_back(flow_of(arg));
    flow.from |= call.args.back().from;
  }
  for (const Node::Key& key : node.keys) {
    call.keys.push_back(key.value.empty() ? ValueFlow{} : flow_of(key.value[0]));
    flow.from |= call.keys.back().from;
  }
  if (node.kind == Node::Kind::operation) flow.hidden = hidden_by(node.op, call.args);
  if (node.builtin && node.builtin->hides) flow.hidden = node.builtin->hides(*this, call);
  return flow;
}

void find_flow(Checked& program) { FlowFinder(program).find(); }

// ---- For readers --------------------------------------------------------------------------------

Sources sources_of(const Node& node, const Flow& flow) {
  Sources from;
  visit(node, [&](const Node& part) {
    if (part.kind == Node::Kind::value) from |= flow.values[part.index].from;
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
