// Updates of parameters. Nothing of them is recorded, and nothing is read by the host: sums and
// rates are f64 scalars on the device of their arguments.
//
// All tensors of a call but these have one shape, one real dtype and any strides. What is updated
// ends untracked and dense, in p's memory order. On the processor each kernel reads its arguments
// once and writes its result once, and results do not depend on the number of threads.
#pragma once
#include "core/tensor.hpp"

namespace tete {

// m = β₁ m + (1-β₁) g,  v = β₂ v + (1-β₂) g²,  p = keep·p - rate · m / (√v · unit + ε), for an
// AdamStep{β₁, β₂, keep, rate, unit, ε}. Each of p, m and v is written in its own memory if it is
// untracked, lies as it will, and no other tensor holds it; else it takes fresh memory, and what
// others hold keeps its numbers. Fails (input) if one object is given for two of p, g, m and v.
void adam_update(Tensor& p, const Tensor& g, Tensor& m, Tensor& v, const AdamStep& step);

// Σ x² of each, f64[xs.size()], squared and summed in f64: for f32 it is finite if and only if all
// of x is. That of an empty Tensor is 0.
Tensor sums_of_squares(std::span<const Tensor> xs, Backend& on);
// Σ x² of n dense numbers, given the sum of each piece of row_of_squares numbers (the last may be
// shorter). Has the bits of sums_of_squares on the processor.
inline constexpr Index row_of_squares = 4096;
double sum_of_rows(std::span<const double> rows, Index n);

// The means of g² over dimension d0 and over another one, d1; the mean's dimension keeps size 1.
struct MeanSquares {
  Tensor over_d0, over_d1;
};
MeanSquares mean_squares(const Tensor& g, int d0, int d1);

// Σ (g a b)². a and b may be broadcast along dimensions (stride 0).
Tensor sum_of_squares_of_product(const Tensor& g, const Tensor& a, const Tensor& b);

// p' = p - rate · g a b, in fresh memory, and Σ p'². The sum has the bits of
// sum_of_squares_of_product(p', 1, 1) for ones with the strides of a and b.
struct UpdatedParameter {
  Tensor p, squares;
};
UpdatedParameter minus_product(const Tensor& p, const Tensor& g, const Tensor& a, const Tensor& b,
                               const Tensor& rate);

}  // namespace tete
