// Facts that follow from a program's statements: each value's last use, the flow, memory orders,
// leaks of hidden positions, and the tile.
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

// ---- Leaks ------------------------------------------------------------------------------------

struct Words {
  const char *how, *instead;
};
// By Combination::How.
constexpr Words words[] = {
    {"combines all positions", ""},
    {"reads one position", "; only position 0 comes before every row"},
    {"may read any position",
     "; windows(…, left=k) reads what comes before, and at positions I[…] that a statement holds "
     "visible(…), gathered like this, says what to leave out"},
    {"may read any position",
     "; mask=T[…] or select(T[…], …, 0) leaves out first what its row may not see, where T[…] is "
     "visible(…) gathered at the same positions"},
    {"has windows that reach to the right",
     "; windows(…, left=k) reads what comes before, and of windows with an axis of their own a "
     "mask can leave out those that reach too far"},
    {"has windows of all positions",
     "; all that come before are left=t - 1 of t places, as many as positions"},
    {"has other windows than those counted before", "; windows that are shifted need another axis"},
    {"cuts the positions into parts", "; windows(…) with an axis of their own are pieces"},
    {"merges positions", ""},
    {"joins the positions",
     "; rows that are joined stand in front of them, as in concat(P[p, …], M[m, …], dim=j), and so "
     "does what says which of them each row may read"},
    {"joins rows",
     "; join the positions that they were gathered at, as in I[n, k] = concat(I_1[n, t], I_2[n, "
     "s], dim=k), and gather at these"},
    {"joins the pieces",
     "; a softmax over both is one over each, the first times sigmoid(logsumexp(…) - "
     "logsumexp(…)) where the first sees any, the second times the rest"},
    {"is the number of positions", ""},
    {"mixes all positions", "; it can leave none out"},
    {"gives another sequence the positions", ""},
    {"returns what a program of its own makes of the positions",
     "; a call without 'with' of a def without M is part of the text"},
    {"takes places of experts for others",
     "; up to unroute(…) a value keeps its expert's axis and this one, or windows of it to the "
     "left"},
    {"may read any position",
     "; rows come back by what they were routed by, from places that have a name of their own"},
    {"has rows of all positions", "; a result has its queries' positions, and no others"},
};

// The axis of queries in the def that has `d`, as that def calls it, or "".
std::string queries_beside(const Checked& program, const Dimension& d) {
  const auto def_of = [](const Dimension& x) {
    return x.name.substr(0, x.name.size() - x.short_name().size());
  };
  for (const Dimension& other : program.dimensions)
    if (other.role == Role::query && def_of(other) == def_of(d)) return other.short_name();
  return "";
}

// An expression that is true where the combination may read, or "" if none is that short.
std::string seen_by(const Checked& program, const Combination& c) {
  const Dimension& d = program.dimensions[c.dim];
  const std::string m = d.short_name(), n = queries_beside(program, d);
  if (d.role == Role::none) return "";
  if (c.reads == Combination::Reads::padding) return text("visible(", m, ")");
  if (c.beside >= 0 && program.dimensions[c.beside].role == d.role)
    return text("position(", m, ") <= position(", program.dimensions[c.beside].short_name(), ")");
  return n.empty() ? "" : text("visible(", n, ", ", m, ")");
}

bool takes_mask(const Combination& c) { return c.function && find_named("mask", c.function->keys); }

// How to hide what the combination reads.
std::string cure_of(const Checked& program, const Combination& c) {
  using How = Combination::How;
  const Dimension& d = program.dimensions[c.dim];
  const bool is_padding = c.reads == Combination::Reads::padding;
  const std::string seen = seen_by(program, c), instead = words[static_cast<size_t>(c.how)].instead;
  for (How has_its_own : {How::unties, How::joins_gathered, How::joins_pieces, How::mixes,
                          How::returns, How::misplaces, How::brings_back, How::keeps})
    if (c.how == has_its_own) return instead;
  if (c.how == How::counts)
    return d.role == Role::none ? "" : text("; the sum of ", seen, " is the number without it");
  const bool hides =
      c.how == How::combines || c.how == How::merges || (c.how == How::joins && is_padding);
  const bool is_found = c.how == How::gathers && d.role == Role::none;
  if (!hides && (!is_padding || c.how == How::shifts || is_found)) return instead;
  if (!is_padding && d.role == Role::query)
    return text("; another name, as in Z[l, …] = A[", d.short_name(), "=(l), …], makes it memory");
  if (seen.empty() && d.role == Role::memory)
    return text("; after Z[l, …] = A[", d.short_name(), "=(l), …], position(l) <= position(",
                d.short_name(), ") says what each row may read");
  const auto is_joined = [&](const Condition& condition) {
    return condition.kind == ConditionKind::total && condition.dim == c.dim;
  };
  if (seen.empty())
    return text(takes_mask(c) ? "; mask= must leave it out" : "; what is combined must be 0 there",
                std::any_of(program.conditions.begin(), program.conditions.end(), is_joined)
                    ? ", as visible(…) joined behind what is in front says"
                    : ", as a minimum over the same windows of visible(…) says, outside of which "
                      "fill=0");
  if (takes_mask(c) && (is_padding || c.beside >= 0))
    return text("; mask=", seen, " leaves it out");
  return text("; what is combined must be 0 there, as in select(", seen, ", …, 0)");
}

// True if it is known by which key it can leave positions out, or that it cannot.
bool leaves_out(const Combination& c) {
  return takes_mask(c) || c.how == Combination::How::mixes || c.how == Combination::How::surrounds;
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
  const Flow& flow = program.flow;
  for (const Combination& c : apart ? flow.combinations_apart : flow.combinations) {
    const bool is_free = apart && flow.dimensions[c.dim].counts_m_alone();
    if ((c.reads == Combination::Reads::future || c.reads == Combination::Reads::length) &&
        !is_free)
      return sentence(program, c);
  }
  std::string leak;
  for (const CheckedCall& all : program.calls)
    visit(all, [&](const CheckedCall& call) {
      const CallSequences inside = sequences_of(program, call, true, apart);
      if (!leak.empty() || !inside.causal) return;
      leak = leak_of(*call.program, inside.apart);
      if (!leak.empty()) leak += "\n" + point_out("it is called here", {call.place});
    });
  return leak;
}

std::string sentence(const Checked& program, const Combination& c) {
  const Dimension& d = program.dimensions[c.dim];
  const std::string begin =
      text("this ", words[static_cast<size_t>(c.how)].how, " of '", d.short_name(), "'");
  const std::string n = queries_beside(program, d);
  std::string rest;
  if (c.reads == Combination::Reads::length)
    rest = text(", so rows change as the sequence grows; a row sees ",
                n.empty() ? "its position" : text("position(", n, ")"), " + 1 positions",
                leaves_out(c) ? cure_of(program, c) : "");
  else if (c.reads == Combination::Reads::padding)
    rest = text(", and padding is among them", cure_of(program, c));
  else if (c.reads == Combination::Reads::first) rest = ", but this call begins later";
  else
    rest = text(" outside a masked weight, so a causal mask does not keep the future hidden",
                cure_of(program, c));
  return point_out(begin + rest, {c.place});
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
}

}  // namespace tete
