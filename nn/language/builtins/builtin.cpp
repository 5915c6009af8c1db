#include "nn/language/builtins/builtin.hpp"

namespace tete {

double number_of_key(Runner& runner, const Node& node, size_t key, double otherwise) {
  const Node* const value = value_of(node, key);
  return value ? runner.quantity(*value) : otherwise;
}

void refuse_known(const Reading& reading, const ExprText& e, const Node& node, size_t key,
                  int dim) {
  const Node& x = node.args[0];
  if (x.names.contains(dim))
    fail_at({node.keys[key].place, x.place}, "'", reading.in.own_name(dim), "' is a dimension of '",
            e.args[0].ref.word.name, "' already");
}

void set_names(const Reading& reading, const ExprText& e, const Names& names, Node& node) {
  reading.refuse_unexpected(e, names);
  for (int name : reading.expected)
    if (names.contains(name)) node.names.push_back(name);
}

void keep_hidden_zeros(const CallFlow& call, ValueFlow& out) {
  for (const Hidden& hidden : call.args[0].hidden)
    if (is_zero(hidden.number)) out.hidden.push_back(hidden);
}

}  // namespace tete
