// Updates of parameters, for the processor: each reads what it is given once and writes once.
//
// All tensors have one shape and one real dtype; they may lie in any way. Results are fresh and lie
// as p does. Sums run in blocks that follow from sizes alone, added in their order: results do not
// depend on the number of threads.
#pragma once
#include <tuple>

#include "core/tensor.hpp"

namespace tete {

// m' = β₁ m + (1-β₁) g,  v' = β₂ v + (1-β₂) g²,  p' = keep·p - rate · m' / (√v' · unit + ε).
struct AdamStep {
  double beta1, beta2, keep, rate, unit, epsilon;
};
// p', m', v'.
std::tuple<Tensor, Tensor, Tensor> adam_update(const Tensor& p, const Tensor& g, const Tensor& m,
                                               const Tensor& v, const AdamStep& step);

// Σ (g a b)². a and b may be repeated along dimensions (stride 0).
double sum_of_squares_of_product(const Tensor& g, const Tensor& a, const Tensor& b);
// p - rate · g a b
Tensor minus_product(const Tensor& p, const Tensor& g, const Tensor& a, const Tensor& b,
                     double rate);

}  // namespace tete
