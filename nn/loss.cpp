#include "nn/loss.hpp"

#include <algorithm>

namespace tete {

Loss token_loss(const Tensor& logits, const Tensor& targets) {
  const Index rows = targets.size();
  std::vector<int64_t> wanted = targets.values<int64_t>();
  std::vector<double> counted(wanted.size(), 1.0);
  int64_t tokens = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < 0) wanted[i] = 0, counted[i] = 0;
    else ++tokens;
  }
  const Tensor each =
      cross_entropy(rearrange("b n v -> (b n) v", logits), Tensor::of<int64_t>({rows}, wanted));
  if (tokens == rows) return {sum(each), tokens};
  return {sum(each * cast(Tensor::of<double>({rows}, counted), each.dtype())), tokens};
}

Index exact_matches(const Tensor& logits, const Tensor& targets) {
  const Index b = logits.size(0), n = logits.size(1), v = logits.size(2);
  const std::vector<double> chances = logits.values<double>();
  const std::vector<int64_t> wanted = targets.values<int64_t>();
  const auto is_right = [&](Index row) {
    const auto first = chances.begin() + row * v;
    return wanted[row] < 0 || std::max_element(first, first + v) - first == wanted[row];
  };
  Index matches = 0;
  for (Index sample = 0; sample < b; ++sample) {
    Index i = 0;
    while (i < n && is_right(sample * n + i)) ++i;
    matches += i == n;
  }
  return matches;
}

}  // namespace tete
