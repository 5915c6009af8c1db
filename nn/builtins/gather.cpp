// gather(T[…, r, …], I, dim=r): T at position I of r; names that both have are aligned.
#include "nn/builtins/builtin.hpp"

namespace tete {

namespace {

void check(Reading& reading, const ExprText& e, Node& node) {
  node.args.push_back(reading.tensor(e.args[0], *node.builtin));
  node.args.push_back(reading.expression(e.args[1]));
  const Node &table = node.args[0], &at = node.args[1];
  need(at, Element::whole, "the second argument of gather");
  if (at.constant) fail_at({at.place}, "a fixed element is picked by its number, as in a[0, h]");
  reading.need_dim(node, table, "what is gathered from");
  if (at.names.contains(node.dim()))
    fail_at({node.keys[0].place, e.args[1].place},
            text("'", reading.in.own_name(node.dim()),
                 "' is replaced, so the positions cannot have it"));
  for (int name : reading.expected)
    if ((table.names.contains(name) && name != node.dim()) || at.names.contains(name))
      node.names.push_back(name);
  for (int name : table.names)
    if (name != node.dim()) reading.refuse_unexpected(e, {name});
  node.element = table.element;
}

Value run(Runner& runner, const Node& node) {
  const Value table = runner.reference(node.args[0]);
  const Value at = runner.node(node.args[1]);
  const bool batched = table.batched || at.batched;
  const std::string pattern =
      text(runner.spelled(table.names, table.batched, node.dim()), ", ",
           runner.spelled(at.names, at.batched), "-> ", runner.spelled(node.names, batched));
  const Tensor positions = cast(at.tensor.detach(), Dtype::i64);
  return {gather(Pattern::parse(pattern), table.tensor, positions), node.names, batched};
}

// Positions may be any: all of a gathered sequence is read.
bool hides(LeakFinder& leaks, const Node& node, const std::vector<Flow>& args) {
  leaks.combined(node, node.dim(), node.args[0], args[0]);
  return args[0].hidden;
}

constexpr KeyRow keys[] = {{"dim", KeyRow::Kind::dim}};

constexpr Builtin rows[] = {
    {.name = "gather",
     .usage = "gather(T[…, r, …], I, dim=r)",
     .meaning = "T at position I of r; names that both have align",
     .least = 2,
     .most = 2,
     .keys = keys,
     .check = check,
     .run = run,
     .hides = hides},
};

}  // namespace

std::span<const Builtin> gather_functions() { return rows; }

}  // namespace tete
