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

// C = A B, or C += A B where `add`; C is m × n, A m × k. No size is 0. Call keep_blas_on_one_thread
// (blas.hpp) before.
template <class T>
void multiply(Index m, Index n, Index k, const Matrix<const T>& A, const Matrix<const T>& B,
              const Matrix<T>& C, bool add, Products products);

}  // namespace tete::cpu_kernels
