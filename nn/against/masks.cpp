#include "nn/against/masks.hpp"

#include <algorithm>

#include "core/ops.hpp"

namespace tete {

namespace {

bool is_elementwise(const Node& node) {
  return node.kind == Node::Kind::operation ||
         (node.kind == Node::Kind::call && node.builtin->apply);
}

bool reads_elementwise(const Node& node, int value) {
  if (node.kind == Node::Kind::value) return node.index == value && node.plain;
  return is_elementwise(node) &&
         std::any_of(node.args.begin(), node.args.end(),
                     [&](const Node& arg) { return reads_elementwise(arg, value); });
}

// True if a softmax that takes the call's mask reads the value directly or elementwise.
bool enters_masked_softmax(const Checked& program, int value) {
  bool found = false;
  for (const CheckedValue& v : program.values) {
    if (v.kind == CheckedValue::Kind::same && v.index == value)
      found |= enters_masked_softmax(program, static_cast<int>(&v - program.values.data()));
    visit(v.right, [&](const Node& node) {
      found |= node.takes_call_mask && reads_elementwise(node.args[0], value);
    });
  }
  return found;
}

}  // namespace

Tensor visible_like(const Tensor& x, const Names& dims, Evaluation& run) {
  const Tensor seen = run.visible(dims);
  Axes batch;
  for (int i = 0; i < x.rank() - seen.rank(); ++i) batch.push_back(i);
  return batch.empty() ? seen : expand(seen, batch, x.shape());
}

std::vector<bool> masked_already(const Candidate& candidate, int value, const Tensor& x,
                                 Evaluation& run) {
  constexpr double very_negative = -9e3;  // -10000 in bfloat16 is -9984
  if (candidate.options.mask.hides_nothing() || !enters_masked_softmax(*candidate.program, value))
    return {};
  const std::vector<double> all = x.values(),
                            seen = visible_like(x, candidate.value(value).dims, run).values();
  std::vector<bool> hidden(all.size(), false);
  for (size_t i = 0; i < all.size(); ++i) {
    if (seen[i] != 0) continue;
    if (!(all[i] <= very_negative)) return {};
    hidden[i] = true;
  }
  return hidden;
}

}  // namespace tete
