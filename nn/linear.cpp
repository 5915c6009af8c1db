#include "nn/linear.hpp"

#include <cmath>

namespace tete {

Linear::Linear(const Scope& scope, const Dim& in, const Dim& out, const LinearOptions& options) {
  Initializer init = options.init;
  if (init.kind == InitializerKind::truncated_normal && init.a == 0)
    init.a = 1 / std::sqrt(static_cast<double>(in.size));
  W_ = scope.declare({"W", {in.name, out.name}, {in.size, out.size}, init});
  if (options.bias) b_ = scope.declare({"b", {out.name}, {out.size}, {InitializerKind::zeros}});
}

Tensor Linear::product(const Forward& forward, const Tensor& X) const {
  return einsum("b n d_in, d_in d_out -> b n d_out", {.products = forward.products}, X,
                forward[W_]);
}

Tensor Linear::operator()(const Forward& forward, const Tensor& X) const {
  const Tensor Y = product(forward, X);
  return b_.index < 0 ? Y : add("b n d_out, d_out", Y, forward[b_]);
}

Tensor Linear::operator()(const Forward& forward, const Tensor& X, Unary then) const {
  const Tensor Y = product(forward, X);
  return b_.index < 0 ? unary(then, Y) : unary_of_sum(then, "b n d_out, d_out", Y, forward[b_]);
}

}  // namespace tete
