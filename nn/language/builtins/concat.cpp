// concat(A[…, a, …], B[…, b, …], dim=e): A, then B, along the one dimension that each has of its
// own; on the left it is e.
#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

// A name that only one of them has, or -1.
int difference(const Names& a, const Names& b) {
  for (int name : a)
    if (!b.contains(name)) return name;
  for (int name : b)
    if (!a.contains(name)) return name;
  return -1;
}

void read_operands(Reading& reading, const ExprText& e, Node& node) {
  for (const ExprText& arg : e.args) {
    node.args.push_back(reading.tensor(arg, *node.builtin));
    const Node &first = node.args[0], &last = node.args.back();
    if (last.names.size() != first.names.size())
      fail_at({arg.place, e.args[0].place}, "what is joined has as many dimensions each; this has ",
              last.names.size(), ", the first ", first.names.size());
    if (last.element != first.element)
      fail_at({arg.place, e.args[0].place}, "what is joined has elements of one kind; this has ",
              describe(last.element), ", the first ", describe(first.element));
  }
}

// An operand's own axis is the one whose name the left lacks.
void check(Reading& reading, const ExprText& e, Node& node) {
  read_operands(reading, e, node);
  const Names& expected = reading.expected;
  const Place left = reading.left ? reading.left->whole : e.place;
  Names shared, parts;
  for (size_t i = 0; i < node.args.size(); ++i) {
    Names own, rest;
    for (int name : node.args[i].names)
      (expected.contains(name) && name != node.dim() ? rest : own).push_back(name);
    if (own.size() != 1)
      fail_at({e.args[i].place, left},
              "an operand of concat has one dimension that the left lacks, this has ", own.size());
    if (i == 0) shared = rest;
    parts.push_back(own[0]);
    if (const int name = difference(shared, rest); name >= 0)
      fail_at({e.args[i].place, e.args[0].place}, "what is joined shares all dimensions but one; '",
              reading.in.own_name(name), "' is in one of these only");
  }
  if (!expected.contains(node.dim()))
    fail_at({node.keys[0].place, left}, "'", reading.in.own_name(node.dim()),
            "' is not a dimension of the left");
  for (int name : expected)
    if (name == node.dim() || shared.contains(name)) node.names.push_back(name);
  node.element = node.args[0].element;
  reading.in.draft.program.conditions.push_back(
      {ConditionKind::total, node.dim(), parts, 0, e.place});
}

Value run(Runner& runner, const Node& node) {
  std::vector<Value> parts;
  bool batched = false;
  for (const Node& arg : node.args) {
    parts.push_back(runner.reference(arg));
    batched |= parts.back().batched;
  }
  Tensors tensors;
  Index total = 0;
  const int at = node.names.find(node.dim());
  for (const Value& part : parts) {
    Names names = node.names;
    for (int name : part.names)
      if (!names.contains(name)) names[at] = name;
    tensors.push_back(runner.aligned(part, names, batched).tensor);
    total += runner.size(names[at]);
  }
  if (total != runner.size(node.dim()))
    fail_at({node.place}, "'", runner.dimension(node.dim()).name, "' is ", runner.size(node.dim()),
            ", but what is joined comes to ", total);
  return {concat(tensors, at + (batched ? runner.batch_rank() : 0)), node.names, batched};
}

// By operand: its own axis.
Names parts_of(const Node& node) {
  Names parts;
  for (const Node& arg : node.args)
    for (int name : arg.names)
      if (!node.names.contains(name) || name == node.dim()) parts.push_back(name);
  return parts;
}

// What is hidden in all operands stays hidden, where it is the same number. If they are `in_order`,
// what is over the sequence behind is at its positions, and what is in front hides nothing.
void join_hidden(const FlowFinder& finder, const CallFlow& call, const Names& parts, bool in_order,
                 ValueFlow& out) {
  const int joined = call.node.dim();
  const auto moved = [&](Hidden hidden, int part) {
    if (in_order && hidden.memory == Clock{part}) hidden.memory = {joined};
    return hidden;
  };
  const auto has = [&](int operand, const Hidden& hidden) {
    const int part = parts[operand];
    const bool is_there = finder.is_of_another(part) && hidden.query != Hidden::padding;
    if (hidden.memory == Clock{joined} && (is_there || !finder.is_sequence(part))) return true;
    const std::vector<Hidden>& all = call.args[static_cast<size_t>(operand)].hidden;
    return std::any_of(all.begin(), all.end(), [&](const Hidden& own) {
      const Hidden other = moved(own, part);
      return other.same_pair(hidden) && other.number == hidden.number &&
             other.in_f32 == hidden.in_f32;
    });
  };
  const int last = parts.size() - 1;
  for (const Hidden& own : call.args[static_cast<size_t>(last)].hidden) {
    const Hidden hidden = moved(own, parts[last]);
    bool stays = true;
    for (int i = 0; i <= last; ++i) stays &= !hidden.mentions(parts[i]) && has(i, hidden);
    if (stays) out.hidden.push_back(hidden);
  }
}

// How the positions of `part` come to be in no order that is known.
Combination::How joining(const FlowFinder& finder, int part, const ValueFlow& out) {
  const auto is_gathered = [part](const Clock& c) { return c.axis == part && c.found >= 0; };
  if (std::any_of(out.reads.begin(), out.reads.end(), is_gathered))
    return Combination::How::joins_gathered;
  return finder.counts_pieces(part) ? Combination::How::joins_pieces : Combination::How::joins;
}

// Rows in front of a sequence leave its rows in their order; else positions that are joined are in
// none that is known.
void flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  const Node& node = call.node;
  const Names parts = parts_of(node);
  const bool in_order = finder.joins(node.dim(), parts, out);
  finder.needs_all(node.dim(), out);
  for (int part : parts) {
    if (in_order) finder.needs_all(part, out);
    else finder.drop(node, part, joining(finder, part, out), out);
  }
  join_hidden(finder, call, parts, in_order, out);
}

constexpr KeyRow keys[] = {{"dim", KeyKind::dim}};

constexpr Builtin rows[] = {
    {.usage = "concat(A[…], B[…], dim=e)",
     .meaning = "A, then B, along the one dimension that each has of its own",
     .example = "Y[q, d] = concat(X[n, d], M[m, d], dim=q)",
     .arguments = {2, max_operands},
     .keys = keys,
     .counts_positions = true,
     .check = check,
     .run = run,
     .flow = flow},
};

}  // namespace

std::span<const Builtin> concat_functions() { return rows; }

}  // namespace tete
