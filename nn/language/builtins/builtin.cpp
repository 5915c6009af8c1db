#include "nn/language/builtins/builtin.hpp"

namespace tete {

std::string spelled(const Runner& runner, const Names& names, bool batched, int marked) {
  std::string all;
  for (int i = 0; batched && i < runner.batch_rank(); ++i) all += text("b", i, " ");
  for (int name : names) all += name == marked ? text("[x", name, "] ") : text("x", name, " ");
  return all;
}

double number_of_key(Runner& runner, const Node& node, size_t key, double otherwise) {
  const Node* const value = value_of(node, key);
  return value ? runner.quantity(*value) : otherwise;
}

const Node& read_tensor(Reading& reading, const ExprText& e, Node& node, const char* what) {
  node.args.push_back(reading.tensor(e.args[0], *node.builtin));
  reading.need_dim(node, node.args[0], what);
  return node.args[0];
}

void refuse_known(const Reading& reading, const ExprText& e, const Node& node, size_t key,
                  int dim) {
  const Node& x = node.args[0];
  if (x.names.contains(dim))
    fail_at({node.keys[key].place, x.place}, "'", reading.in.own_name(dim), "' is a dimension of '",
            e.args[0].ref.word.name, "' already");
}

void set_names(const Reading& reading, const ExprText& e, const Names& kept, const Names& made,
               Node& node) {
  reading.refuse_unexpected(e, made);
  reading.refuse_unexpected(e, kept);
  for (int name : reading.expected)
    if (kept.contains(name) || made.contains(name)) node.names.push_back(name);
}

void keep_hidden_zeros(const CallFlow& call, ValueFlow& out) {
  for (const Hidden& hidden : call.args[0].hidden)
    if (is_zero(hidden.number)) out.hidden.push_back(hidden);
}

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
