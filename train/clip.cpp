#include "train/clip.hpp"

#include <algorithm>
#include <cmath>

#include "core/ops.hpp"
#include "core/update.hpp"

namespace tete {

double global_norm(const Tensors& tensors) {
  double total = 0;
  for (const Tensor& x : tensors)
    if (x) total += sum_of_squares(x);
  return std::sqrt(total);
}

double clip_factor(double norm, double limit) {
  return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
}

double clip_by_global_norm(Tensors& grads, double limit) {
  const double norm = global_norm(grads);
  const double factor = clip_factor(norm, limit);
  if (factor != 1.0)
    for (Tensor& g : grads)
      if (g) g = g * factor;
  return norm;
}

}  // namespace tete
