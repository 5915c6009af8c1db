// Positions that are added to the embedding (spec A7).
//   "none"          nothing is added
//   "learned"       a table[n <= context, d_X], indexed by position
//   "sinusoidal"    [sin(p w_t) ‖ cos(p w_t)], w_t = 10000^(-t/(d/2 - 1)), t = 0 … d/2 - 1
#pragma once
#include "nn/linear.hpp"

namespace tete {

// The sinusoidal table[n, d_X]: sines in the first half of a row, cosines in the second.
Tensor sinusoidal_positions(Index n, Index d_X, Dtype dtype);

class Positions {
 public:
  Positions(const Scope& scope, const std::string& kind, Index context, const Dim& width);
  // X[b, n, d_X] plus the table's first n rows. Learned: fails if n exceeds the context.
  // Offers the rows, [n, d_X], at the scope's path.
  Tensor operator()(const Forward& forward, const Tensor& X) const;

 private:
  Tensor rows(const Forward& forward, Index first, Index n, Dtype dtype) const;

  std::string path_, kind_;
  Index context_;
  ParamId table_;
  Tensor sinusoids_;  // f64[context, d_X]
};

}  // namespace tete
