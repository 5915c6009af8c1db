#include "nn/language/check/analysis.hpp"

#include <algorithm>

namespace tete {

namespace {

// ---- Uses -------------------------------------------------------------------------------------

void collect_uses(const Node& node, std::vector<int>& uses) {
  if (node.kind == NodeKind::value) uses.push_back(node.index);
  for (const Node& arg : node.args) collect_uses(arg, uses);
  for (const Node::Key& key : node.keys)
    for (const Node& value : key.value) collect_uses(value, uses);
}

void find_uses(Checked& program) {
  std::vector<bool> seen(program.values.size(), false);
  seen[program.result] = true;
  for (size_t i = program.values.size(); i-- > 0;) {
    CheckedValue& value = program.values[i];
    if (value.kind == ValueKind::same) value.uses.push_back(value.index);
    if (value.kind == ValueKind::statement) collect_uses(value.right, value.uses);
    if (value.kind == ValueKind::call)
      for (const CheckedCall::Passed& passed : program.calls[value.index].passed)
        value.uses.push_back(passed.value);
    for (int used : value.uses)
      if (!seen[used]) {
        seen[used] = true;
        value.finished.push_back(used);
      }
  }
}

// ---- Leaks ------------------------------------------------------------------------------------

struct Words {
  const char *how, *instead;
};
// By Combination::How.
constexpr Words words[] = {
    {"combines all positions", "; what is combined must be 0 there, as in "},
    {"reads one position", "; only position 0 comes before every row"},
    {"may read any position", "; windows(…, left=k) reads what comes before"},
    {"has windows that reach to the right", "; windows(…, left=k) reads what comes before"},
    {"has windows of all positions", "; all that come before are left=t - 1 of t places"},
    {"has other windows than those counted before", "; windows that are shifted need another axis"},
    {"cuts the positions into parts", "; windows(…) with an axis of their own are pieces"},
    {"merges positions", ""},
    {"joins the positions", ""},
    {"is the number of positions", ""},
};

// The first axis with this role, or `otherwise` where there is none.
std::string axis_of(const Checked& program, Role role, const char* otherwise) {
  for (const Dimension& d : program.dimensions)
    if (d.role == role) return d.name;
  return otherwise;
}

}  // namespace

CallSequences sequences_of(const Checked& program, const CheckedCall& call, bool causal,
                           bool apart) {
  const auto sequence = [&](int dim) {
    const Role of = dim < 0 ? Role::none : program.dimensions[dim].sequence;
    return of == Role::memory && !apart ? Role::query : of;
  };
  const Role queries = sequence(call.queries);
  return {causal && queries == Role::query, call.memory >= 0 && queries != sequence(call.memory)};
}

std::string leak_of(const Checked& program, bool apart) {
  const auto is_free = [&](int dim) {
    return apart && program.dimensions[dim].sequence == Role::memory;
  };
  for (const Combination& c : program.flow.combinations)
    if ((c.reads == Combination::Reads::future || c.reads == Combination::Reads::length) &&
        !is_free(c.dim))
      return sentence(program, c);
  for (const CheckedCall& call : program.calls) {
    const CallSequences inside = sequences_of(program, call, true, apart);
    const std::string leak = inside.causal ? leak_of(*call.program, inside.apart) : "";
    if (!leak.empty()) return leak + "\n" + point_out("it is called here", {call.place});
  }
  return "";
}

std::string sentence(const Checked& program, const Combination& c) {
  const std::string m = program.dimensions[c.dim].name, n = axis_of(program, Role::query, "n");
  const std::string begin = text("this ", words[static_cast<size_t>(c.how)].how, " of '", m, "'");
  const bool is_memory = program.dimensions[c.dim].role == Role::memory;
  switch (c.reads) {
    case Combination::Reads::length:
      return point_out(text(begin, ", so rows change as the sequence grows; a row sees position(",
                            n, ") + 1 positions"),
                       {c.place});
    case Combination::Reads::padding:
      return point_out(
          text(begin, ", and padding is among them; what is combined must be 0 there, ",
               "as in select(visible(", m, "), …, 0)"),
          {c.place});
    case Combination::Reads::first:
      return point_out(text(begin, ", but this call begins later"), {c.place});
    default:
      break;
  }
  std::string cure = words[static_cast<size_t>(c.how)].instead;
  if (c.how == Combination::How::combines)
    cure += text("select(", is_memory ? text("visible(", n, ", ", m, ")") : "c", ", …, 0)");
  return point_out(
      text(begin, " outside a masked weight, so a causal mask does not keep the future ", "hidden",
           cure),
      {c.place});
}

AxisPair masked_pair(const Names& names, int dim, const std::vector<Dimension>& dimensions) {
  const Role role = dimensions[dim].role;
  if (role == Role::none || !names.contains(dim)) return {};
  int other = -1;
  for (int name : names)
    if (dimensions[name].role != Role::none && dimensions[name].role != role) other = name;
  if (other < 0) return {};
  return role == Role::memory ? AxisPair{other, dim} : AxisPair{dim, other};
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
  find_uses(program);
  find_flow(program);
  for (CheckedValue& value : program.values) {
    const bool is_statement = value.kind == ValueKind::statement;
    value.layout = layout_of(is_statement ? value.names : value.dims, program.dimensions);
  }
  program.leak = leak_of(program, program.is_apart());
  program.tile = find_tile(program);
}

}  // namespace tete
