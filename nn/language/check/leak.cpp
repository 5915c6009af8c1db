// Leaks of hidden positions, of padding and of a sequence's length: whether a program has one, and
// the sentence that says what to write instead.
#include <algorithm>

#include "nn/language/check/checker.hpp"

namespace tete {

namespace {

struct Words {
  const char *how, *instead;
  bool of_all = false;  // `instead` is the answer whatever it reads
};
// By Combination::How.
constexpr Words words[] = {
    {"combines all positions", ""},
    {"reads one position", ""},
    {"may read any position",
     "; windows(…, left=k) reads what comes before, and at positions I[n, t] that a statement "
     "holds, a fixed number t for each row, visible(…), gathered like this, says what to leave "
     "out"},
    {"may read any position",
     "; mask=T[…] or select(T[…], …, 0) leaves out first what its row may not see, where T[…] is "
     "visible(…) gathered at the same positions",
     true},
    {"has windows that reach to the right",
     "; windows(…, left=k) reads what comes before, and of windows with an axis of their own a "
     "mask can leave out those that reach too far"},
    {"has windows of all positions",
     "; all that come before are left=t - 1 of t places, as many as positions"},
    {"has other windows than those counted before", "; windows that are shifted need another axis"},
    {"cuts up the positions", "; windows(…) with an axis of their own are pieces"},
    {"merges positions", ""},
    {"joins the positions",
     "; rows that are joined stand in front of them, as in concat(P[p, …], M[m, …], dim=j), and a "
     "mask over j is joined alike"},
    {"joins rows",
     "; join the positions that they were gathered at, as in I[n, k] = concat(I_1[n, t], I_2[n, "
     "s], dim=k), and gather at these",
     true},
    {"joins the pieces",
     "; a softmax over both is one over each, the first times sigmoid(logsumexp(…) - "
     "logsumexp(…)) where the first sees any, the second times the rest",
     true},
    {"is the number of positions", ""},
    {"mixes all positions", "; it can leave none out, but mean(…), of which norms are made, can",
     true},
    {"gives another sequence the positions", ""},
    {"returns what a program of its own makes of the positions",
     "; a call without 'with' of a def without M is part of the text", true},
    {"takes places of experts for others",
     "; up to unroute(…) a value keeps its expert's axis and this one, or windows of it to the "
     "left",
     true},
    {"may read any position",
     "; rows come back by what they were routed by, from places that have a name of their own",
     true},
    {"has rows of all positions", "; a result has its queries' positions, and no others", true},
};
static_assert(std::size(words) == static_cast<size_t>(Combination::How::keeps) + 1);

// The axis of queries in the def that has `d`, as that def calls it, or "".
std::string queries_beside(const Checked& program, const Dimension& d) {
  const auto def_of = [](const Dimension& x) {
    return x.name.substr(0, x.name.size() - x.short_name().size());
  };
  for (const Dimension& other : program.dimensions)
    if (other.role == Role::query && def_of(other) == def_of(d)) return other.short_name();
  return "";
}

const Names& names_of(const Checked& program, const Combination& c) {
  const CheckedValue& value = program.values[c.value];
  return value.names.empty() ? value.dims : value.names;
}

// True if the statement's left side has queries.
bool has_queries(const Checked& program, const Combination& c) {
  const Names& names = names_of(program, c);
  return std::any_of(names.begin(), names.end(),
                     [&](int name) { return program.dimensions[name].role == Role::query; });
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

// The value that is true where a row sees all of a piece, or "".
std::string piece_is_seen(const Checked& program, const Combination& c) {
  const int pieces = program.flow.dimensions[c.dim].pieces;
  if (pieces < 0) return "";
  const int place = program.windows[static_cast<size_t>(pieces)].place;
  return text("min(B[…], reduced_dim=", program.dimensions[place].short_name(),
              "), where B[…] has the same windows of visible(…), with fill=0");
}

bool is_any(const Combination& c) {
  return c.function && std::string_view(c.function->name) == "any";
}

// Says how to hide rows that are no positions of a sequence, but made of them.
std::string cure_of_pieces(const Checked& program, const Combination& c) {
  const auto is_joined = [&](const Condition& condition) {
    return condition.kind == ConditionKind::total && condition.dim == c.dim;
  };
  const std::string begin = takes_mask(c) ? "; mask= must leave it out"
                            : is_any(c)   ? "; what is combined must be false there"
                                          : "; what is combined must be 0 there",
                    seen = piece_is_seen(program, c);
  if (std::any_of(program.conditions.begin(), program.conditions.end(), is_joined))
    return begin +
           ", as concat(…) of what each part may see says: true in front, visible(…) behind";
  return begin + (seen.empty() ? ", where visible(…) is false" : ", as " + seen);
}

// Says how to read one position, or piece, other than the first.
std::string cure_of_pick(const Checked& program, const Combination& c) {
  const Dimension& d = program.dimensions[c.dim];
  const std::string m = d.short_name(), seen = seen_by(program, c);
  if (d.role == Role::none) {
    const std::string piece = piece_is_seen(program, c);
    return piece.empty() ? ""
                         : text("; the sum over '", m, "' of select(S[…] and index(", m,
                                ") == …, …, 0) is one of them, with S[…] = ", piece);
  }
  return text("; only position 0 comes before every row",
              seen.empty() || d.role == Role::query
                  ? ""
                  : text(", the sum over '", m, "' of select(", seen, " and position(", m,
                         ") == …, …, 0) is another"));
}

// Says how to hide what is combined.
std::string cure_of_combined(const Checked& program, const Combination& c) {
  const Dimension& d = program.dimensions[c.dim];
  const bool is_padding = c.reads == Combination::Reads::padding;
  const std::string m = d.short_name(), seen = seen_by(program, c);
  if (!is_padding && d.role == Role::query)
    return text("; another name, as in Z[l, …] = A[", m, "=(l), …], makes it memory");
  if (seen.empty() && d.role == Role::memory)
    return text("; after Z[l, …] = A[", m, "=(l), …], position(l) <= position(", m,
                ") says what each row may read");
  if (seen.empty()) return cure_of_pieces(program, c);
  if (takes_mask(c) && (is_padding || c.beside >= 0))
    return text("; mask=", seen, " leaves it out");
  const bool adds_queries = !is_padding && c.beside < 0 && !has_queries(program, c);
  const std::string left =
      adds_queries ? text(", with ", queries_beside(program, d), " on the left, too") : "";
  if (takes_mask(c))
    return text("; it leaves out what is hidden of select(", seen, ", …, 0)", left);
  if (is_any(c))
    return text("; what is combined must be false there, as in ", seen, " and …", left);
  return text("; what is combined must be 0 there, as in select(", seen, ", …, 0)", left);
}

// Says how to hide what the combination reads.
std::string cure_of(const Checked& program, const Combination& c) {
  using How = Combination::How;
  const Dimension& d = program.dimensions[c.dim];
  const bool is_padding = c.reads == Combination::Reads::padding;
  const auto& [how, instead, of_all] = words[static_cast<size_t>(c.how)];
  if (of_all) return instead;
  if (c.how == How::counts)
    return d.role == Role::none
               ? ""
               : text("; the sum of ", seen_by(program, c), " is the number without it");
  if (c.how == How::picks && (!is_padding || d.role == Role::none)) return cure_of_pick(program, c);
  const bool hides =
      c.how == How::combines || c.how == How::merges || (c.how == How::joins && is_padding);
  const bool is_found = c.how == How::gathers && d.role == Role::none;
  if (!hides && (!is_padding || c.how == How::shifts || is_found)) return instead;
  return cure_of_combined(program, c);
}

// Says how a row knows the number of positions, or how to do without.
std::string cure_of_length(const Checked& program, const Combination& c) {
  const Dimension& d = program.dimensions[c.dim];
  const bool is_pick = c.how == Combination::How::picks;
  if (takes_mask(c) || is_pick || c.how == Combination::How::mixes ||
      c.how == Combination::How::surrounds)
    return cure_of(program, c);
  const bool is_row =
      d.role != Role::none && !has_queries(program, c) && names_of(program, c).contains(c.dim);
  const std::string n = is_row ? d.short_name() : queries_beside(program, d);
  return text("; a row sees ", n.empty() ? "its position" : text("position(", n, ")"),
              " + 1 positions");
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
  const std::string begin = text("this ", words[static_cast<size_t>(c.how)].how, " of '",
                                 program.dimensions[c.dim].short_name(), "'");
  std::string rest;
  if (c.reads == Combination::Reads::length)
    rest = ", so rows change as the sequence grows" + cure_of_length(program, c);
  else if (c.reads == Combination::Reads::padding)
    rest = ", and padding is among them" + cure_of(program, c);
  else if (c.reads == Combination::Reads::first) rest = ", but this call begins later";
  else
    rest = " outside a masked weight, so a causal mask does not keep the future hidden" +
           cure_of(program, c);
  return point_out(begin + rest, {c.place});
}

}  // namespace tete
