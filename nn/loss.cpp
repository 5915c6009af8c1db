#include "nn/loss.hpp"

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

}  // namespace tete
