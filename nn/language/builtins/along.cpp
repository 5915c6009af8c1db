#include "nn/language/builtins/along.hpp"

namespace tete {

void check_along(Reading& reading, const ExprText& e, Node& node) {
  node.args.push_back(reading.expression(e.args[0]));
  const Node& x = node.args[0];
  if (x.constant) fail_at({e.args[0].place}, text("'", node.builtin->name, "' needs a tensor"));
  node.names = x.names;
  if (node.dim() >= 0) reading.need_dim(node, x, text("what '", node.builtin->name, "' is given"));
}

AxisPairs combines_along(FlowFinder& flow, const CallFlow& call) {
  flow.combined(call.node, call.node.dim(), call.node.args[0], call.args[0]);
  return {};
}

}  // namespace tete
