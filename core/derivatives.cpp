#include "core/derivatives.hpp"

#include "core/ops.hpp"

namespace tete {

namespace {

void check_directions(const char* op, std::span<const Tensor> xs, std::span<const Tensor> along) {
  if (xs.size() != along.size())
    bad_input(op, ": expected one direction for each of ", xs.size(), " tensors, got ",
              along.size());
  for (size_t i = 0; i < xs.size(); ++i)
    if (!(xs[i].shape() == along[i].shape()))
      bad_input(op, ": direction ", i + 1, " has shape ", along[i].shape(), ", but its tensor ",
                xs[i].shape());
}

// Σ g·v over all pairs; no value where no gradient arrived.
Tensor inner(const Tensors& gradients, std::span<const Tensor> along) {
  Tensor total;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    const Tensor term = sum(gradients[i] * along[i]);
    total = total ? total + term : term;
  }
  return total;
}

Tensor or_zeros(const Tensor& x, const Tensor& like) {
  return x ? x : Tensor::zeros(like.shape(), like.dtype(), like.backend());
}

}  // namespace

// The gradient u ↦ Jᵀu is linear in the cotangent u, so its own gradient along v is J v, whatever
// u is.
Tensor jvp(const Tensor& y, std::span<const Tensor> xs, std::span<const Tensor> along) {
  check_directions("jvp", xs, along);
  if (!y.tracked()) return or_zeros({}, y);
  const Tensor u = Tensor::zeros(y.shape(), y.dtype(), y.backend()).variable();
  const Tensor moved = inner(grad(y, xs, {.cotangent = u, .keep_graph = true}), along);
  if (!moved || !moved.tracked()) return or_zeros({}, y);
  return or_zeros(grad(moved, {{u}}, {.keep_graph = true})[0], y);
}

Tensors hvp(const Tensor& y, std::span<const Tensor> xs, std::span<const Tensor> along) {
  check_directions("hvp", xs, along);
  if (y.size() != 1) bad_input("hvp: expected a scalar, got ", describe(y.dtype(), y.shape()));
  Tensor slope;
  if (y.tracked()) slope = inner(grad(y, xs, {.keep_graph = true}), along);
  Tensors result(xs.size());
  if (slope && slope.tracked()) result = grad(slope, xs, {.keep_graph = true});
  for (size_t i = 0; i < xs.size(); ++i) result[i] = or_zeros(result[i], xs[i]);
  return result;
}

}  // namespace tete
