#include "nn/language/builtins/along.hpp"

namespace tete {

void check_along(Reading& reading, const ExprText& e, Node& node) {
  node.args.push_back(reading.expression(e.args[0]));
  const Node& x = node.args[0];
  if (x.constant) fail_at({e.args[0].place}, text("'", node.builtin->name, "' needs a tensor"));
  node.names = x.names;
  if (node.dim() >= 0) reading.need_dim(node, x, text("what '", node.builtin->name, "' is given"));
}

bool combines_along(LeakFinder& leaks, const Node& node, const std::vector<Flow>& args) {
  leaks.combined(node, node.dim(), node.args[0], args[0]);
  return false;
}

}  // namespace tete
