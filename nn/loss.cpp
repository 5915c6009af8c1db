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
  const Tensor each = cross_entropy(rearrange("b n v -> (b n) v", logits),
                                    Tensor::of<int64_t>({rows}, wanted, logits.backend()));
  if (tokens == rows) return {sum(each), tokens};
  return {sum(each * cast(Tensor::of<double>({rows}, counted, each.backend()), each.dtype())),
          tokens};
}

Loss with_losses(Loss loss, const Tensors& terms) {
  for (const Tensor& term : terms) loss.sum = loss.sum + term * static_cast<double>(loss.tokens);
  return loss;
}

Matches exact_matches(const Tensor& logits, const Tensor& targets) {
  const Index b = logits.size(0), n = logits.size(1), v = logits.size(2);
  const std::vector<double> chances = logits.values<double>();
  const std::vector<int64_t> wanted = targets.values<int64_t>();
  Matches matches;
  for (Index sample = 0; sample < b; ++sample) {
    bool all = true;
    for (Index row = sample * n; row < (sample + 1) * n; ++row) {
      if (wanted[row] < 0) continue;
      const auto first = chances.begin() + row * v;
      const bool right = std::max_element(first, first + v) - first == wanted[row];
      matches.tokens += right;
      all = all && right;
    }
    matches.samples += all;
  }
  return matches;
}

}  // namespace tete
