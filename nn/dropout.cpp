#include "nn/dropout.hpp"

namespace tete {

Tensor dropped(const Forward& forward, const std::string& path, const Tensor& X, Noise noise) {
  if (!forward.training || forward.dropout == 0) return X;
  const Key key = forward.key.fold(path);
  if (noise == Noise::each) {
    const Index per_sample = X.size(1) * X.size(2);
    return dropout(X, forward.dropout, key, forward.first_sample * per_sample);
  }
  const Tensor ones = Tensor::ones({X.size(0), X.size(2)}, X.dtype(), X.backend());
  const Tensor kept = dropout(ones, forward.dropout, key, forward.first_sample * X.size(2));
  return mul("b n d_X, b d_X", X, kept);
}

}  // namespace tete
