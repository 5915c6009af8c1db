// One product of matrices, on the calling thread.
#pragma once
#include "core/backend.hpp"

namespace tete::cpu_kernels {

// A matrix by the strides of its two dimensions, of which one is 1 and the other at least as long
// as a line.
template <class T>
struct Matrix {
  T* data;
  Index row, column;
};

// C = A B, or C += A B where `add`; C is m × n, A m × k. No size is 0. Numbers are X in A and B, Y
// in C: float, double, or Bf16 and float. Call keep_blas_on_one_thread (blas.hpp) before.
template <class X, class Y>
void multiply(Index m, Index n, Index k, const Matrix<const X>& A, const Matrix<const X>& B,
              const Matrix<Y>& C, bool add);

}  // namespace tete::cpu_kernels
