#include "nn/dropout.hpp"

namespace tete {

Tensor dropped(const Forward& forward, const std::string& path, const Tensor& X) {
  if (!forward.training || forward.dropout == 0) return X;
  const Key key = forward.key.fold(path);
  const Index per_sample = X.size(1) * X.size(2);
  return dropout(X, forward.dropout, key, forward.first_sample * per_sample);
}

}  // namespace tete
