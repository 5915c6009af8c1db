#include "train/step_totals.hpp"

#include <algorithm>

#include "core/ops.hpp"

namespace tete {

// The numbers of each node, and then a bit for each gradient.
Bytes StepTotals::of_this_rank(const SumOfRanks& sum) {
  Bytes bytes;
  for (const ShardSum& node : *sum.nodes) {
    const Numbers numbers{node.loss.item(), node.tokens};
    const auto added = std::as_bytes(std::span(&numbers, 1));
    bytes.insert(bytes.end(), added.begin(), added.end());
  }
  const size_t flags = bytes.size();
  bytes.resize(flags + (sum.results.size() + 7) / 8);
  for (size_t i = 0; i < sum.results.size(); ++i)
    if (std::any_of(sum.nodes->begin(), sum.nodes->end(),
                    [&](const ShardSum& node) { return bool(node.grads[i]); }))
      bytes[flags + i / 8] |= std::byte(1 << i % 8);
  return bytes;
}

std::vector<size_t> StepTotals::lengths(const SumOfRanks& sum) {
  std::vector<size_t> all;
  for (int r = 0; r < sum.division.ranks(); ++r)
    all.push_back(sum.nodes_of(r) * sizeof(Numbers) + (sum.results.size() + 7) / 8);
  return all;
}

StepTotals::StepTotals(int channel, const SumOfRanks& sum)
    : gathering_(channel, sum.rank, of_this_rank(sum), lengths(sum)) {}

ShardSum StepTotals::result(const SumOfRanks& sum) const {
  std::vector<const std::byte*> at;
  for (int r = 0; r < sum.division.ranks(); ++r) at.push_back(gathering_.of(r).data());
  std::vector<Numbers> stack;
  auto node = sum.order.nodes.begin();
  for (bool is_leaf : sum.order.is_leaf) {
    if (is_leaf) {
      const std::byte*& from = at[static_cast<size_t>((node++)->rank)];
      std::memcpy(&stack.emplace_back(), from, sizeof(Numbers));
      from += sizeof(Numbers);
      continue;
    }
    const Numbers right = stack.back();
    stack.pop_back();
    stack.back().loss += right.loss, stack.back().tokens += right.tokens;
  }
  ShardSum total{Tensor::scalar(stack[0].loss, Dtype::f64), stack[0].tokens, sum.results};
  for (size_t i = 0; i < total.grads.size(); ++i)
    if (std::all_of(at.begin(), at.end(), [i](const std::byte* flags) {
          return (flags[i / 8] & std::byte(1 << i % 8)) == std::byte(0);
        }))
      total.grads[i] = Tensor();
  return total;
}

}  // namespace tete
