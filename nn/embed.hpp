// Embedding: X[b, n, d_X] = table[tokens[b, n], d_X]; and, tied, the table as the output layer.
#pragma once
#include "nn/linear.hpp"

namespace tete {

class Embedding {
 public:
  // T5 starts an embedding with N(1) (spec D5).
  Embedding(const Scope& scope, const Dim& rows, const Dim& width,
            Initializer init = {InitializerKind::normal, 1.0});
  // tokens[b, n] (i64) -> [b, n, d_X].
  Tensor operator()(const Forward& forward, const Tensor& tokens) const;
  // X[b, n, d_X] -> logits[b, n, v]: the products of X with every row.
  Tensor products(const Forward& forward, const Tensor& X) const;

 private:
  ParamId table_;
};

}  // namespace tete
