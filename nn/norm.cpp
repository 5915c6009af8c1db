#include "nn/norm.hpp"

namespace tete {

Norm::Norm(const Scope& scope, const std::string& kind, const Dim& width) : path_(scope.path) {
  const std::string kinds[] = {"layer", "rms"};
  if (kind != "layer" && kind != "rms")
    bad_input("unknown norm '", kind, "'", suggestion(kind, kinds), " (there are layer, rms)");
  scale_ = scope.declare({"scale", {width.name}, {width.size}, {InitializerKind::ones}});
  if (kind == "layer")
    bias_ = scope.declare({"bias", {width.name}, {width.size}, {InitializerKind::zeros}});
}

Tensor Norm::operator()(const Forward& forward, const Tensor& X) const {
  const bool centred = bias_.index >= 0;
  const Tensor Y =
      centred ? layer_norm(X, forward[scale_], forward[bias_]) : rms_norm(X, forward[scale_]);
  if (!forward.asks_for(path_ + "/divisor")) return Y;
  const int last = X.rank() - 1;
  const Tensor x = centred ? X - broadcast(mean(X, {last}, true), X.shape()) : X;
  const Tensor root = sqrt(mean(square(x), {last}, true) + norm_epsilon),
               other = forward.offer(path_, "divisor", root);
  if (other.same(root)) return Y;
  // If a hook returns the same root, this adds zero: no bit changes.
  const Tensor change = broadcast(root / other - 1.0, Y.shape());
  if (!centred) return Y + Y * change;
  Shape wide(X.rank(), 1);
  wide[last] = X.size(last);
  return Y + (Y - broadcast(reshape(forward[bias_], wide), Y.shape())) * change;
}

std::pair<Tensor, Tensor> Norm::of_sum(const Forward& forward, const Tensor& X,
                                       const Tensor& R) const {
  if (forward.asks_for(path_ + "/divisor")) return {X + R, Tensor()};
  return bias_.index >= 0 ? add_layer_norm(X, R, forward[scale_], forward[bias_])
                          : add_rms_norm(X, R, forward[scale_]);
}

}  // namespace tete
