// OpenBLAS, on the calling thread.
#pragma once
#include "core/cpu/multiply.hpp"

namespace tete::cpu_kernels {

// The same as multiply(), in full precision; C.column is 1.
template <class T>
void blas_multiply(Index m, Index n, Index k, const Matrix<const T>& A, const Matrix<const T>& B,
                   const Matrix<T>& C, bool add);

// While it lives, the BLAS computes on the thread that calls it, and so in the loops that this
// thread shares with others. Then it and OpenMP have as many threads as they had before.
class BlasOnOneThread {
 public:
  BlasOnOneThread();
  ~BlasOnOneThread();
  BlasOnOneThread(const BlasOnOneThread&) = delete;

 private:
  int omp_threads_;  // of the calling thread
};

}  // namespace tete::cpu_kernels
