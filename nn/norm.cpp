#include "nn/norm.hpp"

namespace tete {

Norm::Norm(const Scope& scope, const std::string& kind, const Dim& width) {
  const std::string kinds[] = {"layer", "rms"};
  if (kind != "layer" && kind != "rms")
    bad_input("unknown norm '", kind, "'", suggestion(kind, kinds), " (there are layer, rms)");
  scale_ = scope.declare({"scale", {width.name}, {width.size}, {Initializer::Kind::ones}});
  if (kind == "layer")
    bias_ = scope.declare({"bias", {width.name}, {width.size}, {Initializer::Kind::zeros}});
}

Tensor Norm::operator()(const Forward& forward, const Tensor& X) const {
  return bias_.index < 0 ? rms_norm(X, forward[scale_])
                         : layer_norm(X, forward[scale_], forward[bias_]);
}

}  // namespace tete
