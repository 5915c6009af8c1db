// Linear: Y[b, n, d_out] = X[b, n, d_in] W[d_in, d_out] + b[d_out].
#pragma once
#include "nn/forward.hpp"

namespace tete {

// A dimension as it is declared.
struct Dim {
  std::string name;
  Index size;
};

struct LinearOptions {
  Initializer init = {InitializerKind::truncated_normal, 0};  // of W; 0: d_in^-½
  bool bias = false;                                          // starts at zero
};

class Linear {
 public:
  Linear(const Scope& scope, const Dim& in, const Dim& out, const LinearOptions& options = {});
  Tensor operator()(const Forward& forward, const Tensor& X) const;
  // then(Y), computed in one pass with the addition of b.
  Tensor operator()(const Forward& forward, const Tensor& X, Unary then) const;

 private:
  Tensor product(const Forward& forward, const Tensor& X) const;

  ParamId W_, b_;
};

}  // namespace tete
