#include "nn/language/check/causality.hpp"

namespace tete {

LeakFinder::LeakFinder(const Checked& program) : program_(program) {
  for (const Dimension& d : program.dimensions) roles_.push_back(d.role);
  for (const Condition& c : program.conditions)
    if (c.kind == Condition::Kind::product)
      for (int part : c.others)
        if (role(part) == Role::none) roles_[part] = role(c.dim);
}

std::string LeakFinder::leak() {
  for (const CheckedValue& value : program_.values) {
    flows_.push_back(flow_of(value));
    if (!leak_.empty()) break;
  }
  return leak_;
}

void LeakFinder::found(const Node& node, int dim, const char* what) {
  if (leak_.empty())
    leak_ = point_out(text(what, " '", program_.dimensions[dim].name,
                           "' outside a masked weight, so a causal mask does not keep the future "
                           "hidden"),
                      {node.place});
}

void LeakFinder::combined(const Node& node, int dim, const Node& arg, const Flow& flow,
                          bool is_sum) {
  if (role(dim) == Role::none || !flow.data || !arg.names.contains(dim)) return;
  if (role(dim) == Role::memory && flow.hidden && is_sum) return;
  found(node, dim, "this combines all positions of");
}

Flow LeakFinder::flow_of(const CheckedValue& value) {
  const auto is_sequence = [&](int dim) { return role(dim) != Role::none; };
  switch (value.kind) {
    case CheckedValue::Kind::input:
      return {std::any_of(value.dims.begin(), value.dims.end(), is_sequence), false};
    case CheckedValue::Kind::parameter:
      return {};
    case CheckedValue::Kind::same:
      return flows_[value.index];
    case CheckedValue::Kind::statement:
      return flow_of(value.right);
  }
  return {};
}

// The flow of a use. A picked position of a sequence is a leak: all queries read it.
Flow LeakFinder::use(const Node& node) {
  const Flow flow = flows_[node.index];
  const CheckedValue& value = program_.values[node.index];
  for (int i = 0; i < value.dims.size() && !node.plain; ++i)
    if (node.axes[i].pick >= 0 && role(value.dims[i]) != Role::none && flow.data)
      found(node, value.dims[i], "this reads one position of");
  return flow;
}

namespace {

bool operation_hides(Operator op, const std::vector<Flow>& args) {
  const auto is_hidden = [](const Flow& f) { return f.hidden; };
  switch (op) {
    case Operator::multiply:
    case Operator::both:
      return std::any_of(args.begin(), args.end(), is_hidden);
    case Operator::divide:
      return args[0].hidden;
    case Operator::add:
    case Operator::subtract:
    case Operator::minus:
    case Operator::either:
      return std::all_of(args.begin(), args.end(), is_hidden);
    default:
      return false;
  }
}

}  // namespace

Flow LeakFinder::flow_of(const Node& node) {
  if (node.kind == Node::Kind::value) return use(node);
  std::vector<Flow> args;
  for (const Node& arg : node.args) args.push_back(flow_of(arg));
  Flow flow;
  for (const Flow& f : args) flow.data |= f.data;
  if (node.kind == Node::Kind::operation) flow.hidden = operation_hides(node.op, args);
  if (node.kind == Node::Kind::call && node.builtin->hides)
    flow.hidden = node.builtin->hides(*this, node, args);
  return flow;
}

}  // namespace tete
