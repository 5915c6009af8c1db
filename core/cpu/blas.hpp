// OpenBLAS, on the calling thread.
#pragma once
#include "core/cpu/multiply.hpp"

namespace tete::cpu_kernels {

// The same as multiply(), in full precision; C.column is 1.
template <class T>
void blas_multiply(Index m, Index n, Index k, const Matrix<const T>& A, const Matrix<const T>& B,
                   const Matrix<T>& C, bool add);

// Call on a thread before its first product and before threads are started for products.
void keep_blas_on_one_thread();

}  // namespace tete::cpu_kernels
