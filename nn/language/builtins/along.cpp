#include "nn/language/builtins/along.hpp"

namespace tete {

void check_along(Reading& reading, const ExprText& e, Node& node) {
  node.args.push_back(reading.expression(e.args[0]));
  const Node& x = node.args[0];
  if (x.constant) fail_at({e.args[0].place}, "'", node.builtin->name, "' needs a tensor");
  node.names = x.names;
  if (node.dim() >= 0) reading.need_dim(node, x, text("what '", node.builtin->name, "' is given"));
}

void combines_along(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  const int dim = call.node.dim();
  ValueFlow reduced = out;
  const auto none = [](double) { return false; };
  finder.reduce(call.node, {dim}, reduced, none, Combination::How::mixes);
  out.reads = reduced.reads, out.padding = reduced.padding;
  out.by_row = reduced.by_row;
}

}  // namespace tete
