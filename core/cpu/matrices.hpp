// A contraction as matrix products.
#pragma once
#include "core/backend.hpp"
#include "core/cpu/product.hpp"

namespace tete::cpu_kernels {

struct MatrixPlan {
  double seconds = 1e300;        // estimated, on one thread; 1e300: there is no such plan
  std::array<bool, 3> packed{};  // A, B: copied first; Y: copied afterwards
  Groups laid;                   // dimensions before merging, with strides after packing
  Dim m, n, k;                   // the matrix
  Dims outputs;                  // loops: batch, and the dimensions of M and N except m and n
  Dims sums;                     // loops: the dimensions of K except k
};

// The fastest plan that packs no operand but those in `may_pack`. M, N and K are not empty.
MatrixPlan plan_matrices(const Groups& groups, std::array<bool, 3> may_pack = {true, true, true});
// Packs operands as planned, multiplies, and copies a packed result to Y. Types are as for
// `multiply`.
template <class X, class Z>
void multiply_matrices(const MatrixPlan& plan, X* A, X* B, Z* Y);

// The same groups with dimensions merged that are stepped over in one stride.
Groups merged(const Groups& groups);

}  // namespace tete::cpu_kernels
