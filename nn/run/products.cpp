// The matrix products of a run: einsum, and a sum of two einsums that is computed as one.
#include <algorithm>

#include "nn/labels.hpp"
#include "nn/run/fusion.hpp"

namespace tete {

bool is_product_of_two(const Node& n) {
  return n.builtin && n.builtin->contracts && n.args.size() == 2;
}

namespace {

// The factor A that A·B (narrow) and A·C (wide) share, as its argument number in each, if C has all
// names of B; otherwise -1.
struct Common {
  int in_narrow = -1, in_wide = -1;
};
Common common_factor(const Node& narrow, const Node& wide) {
  for (int i : {0, 1})
    for (int k : {0, 1}) {
      const Node &A = narrow.args[i], &same = wide.args[k], &B = narrow.args[1 - i],
                 &C = wide.args[1 - k];
      const bool common = A.index == same.index && A.plain && same.plain && A.names == same.names;
      if (common && includes(C.names, B.names)) return {i, k};
    }
  return {};
}

}  // namespace

Value Runner::contracted(const Node& node, const std::vector<Value>& values) {
  NameLabels labels(batch_rank());
  std::vector<Operand> operands;
  bool batched = false;
  for (const Value& v : values) {
    batched |= v.batched;
    operands.push_back({v.tensor, labels.of(v.names, v.batched)});
  }
  const Labels result = labels.of(node.names, batched);
  Names in_memory;
  for (int i : layout_of(node.names, program_.dimensions)) in_memory.push_back(node.names[i]);
  const Labels layout = labels.of(in_memory, batched);
  const EinsumOptions options{.products = forward_.products, .only_graph = &node == only_graph_};
  return {contract_all(operands, result, layout, options), node.names, batched};
}

void Runner::make_only_graph_of(int number) {
  const Node& made = checked(number).right;
  const std::vector<int>& inside = program_.tile.inside;
  const bool is_read = std::any_of(inside.begin(), inside.end(), [&](int reader) {
    const std::vector<int>& uses = checked(reader).uses;
    return std::find(uses.begin(), uses.end(), number) != uses.end();
  });
  if (is_product_of_two(made) && !is_read) only_graph_ = &made;
}

std::optional<Value> joined(Runner& runner, const Node& a, const Node& b) {
  if (!is_product_of_two(a) || !is_product_of_two(b)) return {};
  const Node *narrow = &a, *wide = &b;
  Common common = common_factor(a, b);
  if (common.in_narrow < 0) std::swap(narrow, wide), common = common_factor(b, a);
  if (common.in_narrow < 0) return {};
  const Value B = runner.reference(narrow->args[1 - common.in_narrow]),
              C = runner.reference(wide->args[1 - common.in_wide]);
  const auto [parts, batched] = runner.operands({B, C}, C.names);
  const Value both{parts[0] + parts[1], C.names, batched};
  return runner.contracted(*wide, {runner.reference(wide->args[common.in_wide]), both});
}

}  // namespace tete
