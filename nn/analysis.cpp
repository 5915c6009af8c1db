#include "nn/analysis.hpp"

#include <algorithm>

namespace tete {

namespace {

// ---- Heads and layout -------------------------------------------------------------------------

// A head is a name that two operands of an einsum share with the result, but no sequence.
void find_heads_in(const Node& node, std::vector<Dimension>& dimensions) {
  if (node.builtin && node.builtin->form == Form::einsum)
    for (int name : node.names) {
      const auto has = [&](const Node& arg) { return arg.names.contains(name); };
      Dimension& d = dimensions[static_cast<size_t>(name)];
      if (d.role == Role::none && std::count_if(node.args.begin(), node.args.end(), has) >= 2)
        d.head = true;
    }
  for (const Node& arg : node.args) find_heads_in(arg, dimensions);
}

// What is one dimension under two names is a head under both; so are a head's parts, and what has a
// head as a part.
void spread_heads(Checked& program) {
  const auto dim = [&](int i) -> Dimension& { return program.dimensions[static_cast<size_t>(i)]; };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Condition& c : program.conditions) {
      if (c.kind != Condition::Kind::equal && c.kind != Condition::Kind::product) continue;
      Names alike = c.others;
      alike.push_back(c.dim);
      const bool head = std::any_of(alike.begin(), alike.end(), [&](int i) { return dim(i).head; });
      for (int i : alike)
        if (head && dim(i).role == Role::none && !dim(i).head) dim(i).head = changed = true;
    }
  }
}

// ---- Uses -------------------------------------------------------------------------------------

void collect_uses(const Node& node, std::vector<int>& uses) {
  if (node.kind == Node::Kind::value) uses.push_back(node.index);
  for (const Node& arg : node.args) collect_uses(arg, uses);
  for (const Node& mask : node.mask) collect_uses(mask, uses);
}

void find_uses(Checked& program) {
  std::vector<bool> seen(program.values.size(), false);
  seen[static_cast<size_t>(program.result)] = true;
  for (size_t i = program.values.size(); i-- > 0;) {
    CheckedValue& value = program.values[i];
    if (value.kind == CheckedValue::Kind::same) value.uses.push_back(value.index);
    if (value.kind == CheckedValue::Kind::statement) collect_uses(value.right, value.uses);
    for (int used : value.uses)
      if (!seen[static_cast<size_t>(used)]) {
        seen[static_cast<size_t>(used)] = true;
        value.finished.push_back(used);
      }
  }
}

// ---- Causality, as far as the text shows ------------------------------------------------------

// What a value carries under a causal mask.
struct Flow {
  bool data = false;    // it depends on a sequence of inputs
  bool hidden = false;  // it is zero wherever the mask hides a memory position from a query
};

class LeakFinder {
 public:
  explicit LeakFinder(const Checked& program) : program_(program) {
    for (const Dimension& d : program.dimensions) roles_.push_back(d.role);
    // The parts of a split sequence are that sequence.
    for (const Condition& c : program.conditions)
      if (c.kind == Condition::Kind::product)
        for (int part : c.others)
          if (role(part) == Role::none) roles_[static_cast<size_t>(part)] = role(c.dim);
  }

  std::string leak() {
    for (const CheckedValue& value : program_.values) {
      flows_.push_back(flow_of(value));
      if (!leak_.empty()) break;
    }
    return leak_;
  }

 private:
  Role role(int dim) const { return roles_[static_cast<size_t>(dim)]; }
  Flow flow_of(const CheckedValue& value) {
    const auto is_sequence = [&](int dim) { return role(dim) != Role::none; };
    switch (value.kind) {
      case CheckedValue::Kind::input:
        return {std::any_of(value.dims.begin(), value.dims.end(), is_sequence), false};
      case CheckedValue::Kind::parameter:
        return {};
      case CheckedValue::Kind::same:
        return flows_[static_cast<size_t>(value.index)];
      case CheckedValue::Kind::statement:
        return flow_of(value.right);
    }
    return {};
  }

  void found(const Node& node, int dim, const char* what) {
    if (leak_.empty())
      leak_ = point_out(text(what, " '", program_.dimensions[static_cast<size_t>(dim)].name,
                             "' outside a masked weight, so a causal mask does not keep the future "
                             "hidden"),
                        {node.place});
  }

  // `dim` of `arg` is summed over or normalised over.
  void reduced(const Node& node, int dim, const Node& arg, const Flow& flow, bool by_zeros) {
    if (role(dim) == Role::none || !flow.data || !arg.names.contains(dim)) return;
    if (role(dim) == Role::memory && flow.hidden && by_zeros) return;
    found(node, dim, "this combines all positions of");
  }

  Flow flow_of(const Node& node) {
    std::vector<Flow> flows;
    for (const Node& arg : node.args) flows.push_back(flow_of(arg));
    Flow out;
    for (const Flow& f : flows) out.data |= f.data;
    const auto all = [&] {
      return !flows.empty() &&
             std::all_of(flows.begin(), flows.end(), [](const Flow& f) { return f.hidden; });
    };
    const auto some = [&] {
      return std::any_of(flows.begin(), flows.end(), [](const Flow& f) { return f.hidden; });
    };
    if (node.kind == Node::Kind::value) {
      const Flow f = flows_[static_cast<size_t>(node.index)];
      const CheckedValue& value = program_.values[static_cast<size_t>(node.index)];
      for (int i = 0; i < value.dims.size() && !node.plain; ++i)
        if (node.axes[static_cast<size_t>(i)].pick >= 0 && role(value.dims[i]) != Role::none &&
            f.data)
          found(node, value.dims[i], "this reads one position of");
      return f;
    }
    if (node.kind == Node::Kind::operation) {
      switch (node.op) {
        case Operator::multiply:
        case Operator::both:
          out.hidden = some();
          break;
        case Operator::divide:
          out.hidden = flows[0].hidden;
          break;
        case Operator::add:
        case Operator::subtract:
        case Operator::minus:
        case Operator::either:
          out.hidden = all();
          break;
        default:
          break;
      }
    }
    if (node.kind == Node::Kind::call) call(node, flows, all(), out);
    return out;
  }

  void call(const Node& node, const std::vector<Flow>& flows, bool all, Flow& out) {
    const std::string_view name = node.builtin->name;
    switch (node.builtin->form) {
      case Form::einsum:
        einsum(node, flows, out);
        break;
      case Form::each: {
        static constexpr std::string_view keep_zero[] = {"abs",  "erf",      "elu",  "floor",
                                                         "gelu", "gelu_erf", "relu", "silu",
                                                         "sin",  "sqrt",     "tanh"};
        const bool keeps =
            std::find(std::begin(keep_zero), std::end(keep_zero), name) != std::end(keep_zero);
        out.hidden = keeps && all;
        if (name == "select") {
          const bool else_zero = node.args[2].constant && node.args[2].kind == Node::Kind::number &&
                                 node.args[2].number == 0;
          out.hidden = (flows[1].hidden && flows[2].hidden) || (flows[0].hidden && else_zero);
        }
        break;
      }
      case Form::along:
        if (name == "dropout") {
          out.hidden = flows[0].hidden;
        } else {
          const bool masked = node.takes_call_mask && role(node.dim) == Role::memory;
          if (!masked) reduced(node, node.dim, node.args[0], flows[0], false);
          out.hidden = masked;
        }
        break;
      case Form::reduction:
        reduced(node, node.dim, node.args[0], flows[0], name == "sum" || name == "mean");
        out.hidden = flows[0].hidden && name != "logsumexp" && role(node.dim) == Role::none;
        break;
      case Form::visible:
        out.hidden = node.names.size() == 2;
        break;
      case Form::gather:
        reduced(node, node.dim, node.args[0], flows[0], false);
        out.hidden = flows[0].hidden;
        break;
      case Form::concat:
        out.hidden = all;
        break;
      case Form::positions:
        break;
    }
  }

  // Σ over a memory axis is fine where a factor with that axis is zero for what is hidden.
  void einsum(const Node& node, const std::vector<Flow>& flows, Flow& out) {
    bool keeps_query = false, keeps_memory = false;
    for (int name : node.names) {
      keeps_query |= role(name) == Role::query;
      keeps_memory |= role(name) == Role::memory;
    }
    for (size_t i = 0; i < flows.size(); ++i)
      out.hidden |= flows[i].hidden && keeps_query && keeps_memory;
    for (size_t i = 0; i < flows.size(); ++i)
      for (int name : node.args[i].names) {
        if (node.names.contains(name) || role(name) == Role::none) continue;
        bool masked = false;
        for (size_t k = 0; k < flows.size(); ++k)
          masked |= flows[k].hidden && node.args[k].names.contains(name);
        if (!(masked && role(name) == Role::memory && keeps_query))
          reduced(node, name, node.args[i], flows[i], false);
      }
  }

  const Checked& program_;
  std::vector<Role> roles_;
  std::vector<Flow> flows_;
  std::string leak_;
};

}  // namespace

Short<int> layout_of(const Names& names, const std::vector<Dimension>& dimensions) {
  const auto dim = [&](int i) -> const Dimension& {
    return dimensions[static_cast<size_t>(names[i])];
  };
  int query = -1, memory = -1, sequence = 0;
  for (int i = names.size() - 1; i >= 0; --i) {
    if (dim(i).role == Role::query) query = i;
    if (dim(i).role == Role::memory) memory = i;
    if (dim(i).role != Role::none) sequence = i;
  }
  Short<int> order;
  if (query >= 0 && memory >= 0) {
    for (int i = 0; i < names.size(); ++i)
      if (i != query && i != memory) order.push_back(i);
    order.push_back(query), order.push_back(memory);
    return order;
  }
  if (!names.empty()) order.push_back(sequence);
  for (bool head : {true, false})
    for (int i = 0; i < names.size(); ++i)
      if (i != sequence && dim(i).head == head) order.push_back(i);
  return order;
}

void analyse(Checked& program) {
  for (const CheckedValue& value : program.values) find_heads_in(value.right, program.dimensions);
  spread_heads(program);
  for (CheckedValue& value : program.values) {
    const bool is_statement = value.kind == CheckedValue::Kind::statement;
    value.layout = layout_of(is_statement ? value.names : value.dims, program.dimensions);
  }
  find_uses(program);
  program.leak = LeakFinder(program).leak();
}

}  // namespace tete
