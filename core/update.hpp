// Updates of parameters, for the processor: each reads its arguments once and writes its result
// once.
//
// All tensors of a call have one shape and one real dtype, and any strides. p' is fresh memory,
// dense, in p's memory order. Sums run in blocks that follow from sizes alone, added in their
// order: results do not depend on the number of threads.
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

// Σ x², squared and summed in float64: for f32 it is finite if and only if all of x is.
double sum_of_squares(const Tensor& x);

// The means of g² over dimension d0 and over another one, d1; the mean's dimension keeps size 1. g
// is read once if one of the two has stride 1, else twice.
struct MeanSquares {
  Tensor over_d0, over_d1;
};
MeanSquares mean_squares(const Tensor& g, int d0, int d1);

// Σ (g a b)². a and b may be broadcast along dimensions (stride 0).
double sum_of_squares_of_product(const Tensor& g, const Tensor& a, const Tensor& b);

// p' = p - rate · g a b and Σ p'².
struct UpdatedParameter {
  Tensor p;
  double squares;
};
UpdatedParameter minus_product(const Tensor& p, const Tensor& g, const Tensor& a, const Tensor& b,
                               double rate);
// Σ p². It has the bits of UpdatedParameter::squares if p is minus_product's p' and a and b have
// the strides that they had there.
double sum_of_squares_of_moved(const Tensor& p, const Tensor& a, const Tensor& b);

}  // namespace tete
