// OpenBLAS, one thread for each call: the threads are ours, and so is the order of every sum.
#include "core/cpu/blas.hpp"

#include <cblas.h>
#include <omp.h>

#include <mutex>

#include "core/threads.hpp"

namespace tete::cpu_kernels {
namespace {

void product(bool ta, bool tb, int m, int n, int k, const float* a, int lda, const float* b,
             int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasColMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n,
              k, 1, a, lda, b, ldb, beta, c, ldc);
}
void product(bool ta, bool tb, int m, int n, int k, const double* a, int lda, const double* b,
             int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasColMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n,
              k, 1, a, lda, b, ldb, beta, c, ldc);
}

// True if BLAS must read M as transposed: BLAS matrices are column-major.
template <class T>
bool transposed(const Matrix<T>& M) {
  return M.row != 1;
}
template <class T>
int leading(const Matrix<T>& M) {
  return static_cast<int>(M.row != 1 ? M.row : M.column);
}

// An OpenBLAS with OpenMP takes the calling thread's number of threads for its own; any other has
// one number for the process.
bool has_own_threads() {
  static const bool own = openblas_get_parallel() == 1;
  return own;
}

// That number, while somebody needs it to be 1.
class OwnThreads {
 public:
  void set_to_one() {
    const std::lock_guard lock(mutex_);
    if (users_++ > 0) return;
    before_ = openblas_get_num_threads();
    openblas_set_num_threads(1);
  }
  void set_back() {
    const std::lock_guard lock(mutex_);
    if (--users_ == 0) openblas_set_num_threads(before_);
  }

 private:
  std::mutex mutex_;
  int users_ = 0, before_ = 1;
};
OwnThreads own_threads;

}  // namespace

BlasOnOneThread::BlasOnOneThread() : omp_threads_((threads(), omp_get_max_threads())) {
  if (has_own_threads()) own_threads.set_to_one();
  if (omp_threads_ != 1) omp_set_num_threads(1);
}

BlasOnOneThread::~BlasOnOneThread() {
  if (omp_threads_ != 1) omp_set_num_threads(omp_threads_);
  if (has_own_threads()) own_threads.set_back();
}

template <class T>
void blas_multiply(Index m, Index n, Index k, const Matrix<const T>& A, const Matrix<const T>& B,
                   const Matrix<T>& C, bool add) {
  // In BLAS's column-major order: Cᵀ = Bᵀ Aᵀ.
  const Matrix<const T> a{A.data, A.column, A.row}, b{B.data, B.column, B.row};
  product(transposed(b), transposed(a), static_cast<int>(n), static_cast<int>(m),
          static_cast<int>(k), b.data, leading(b), a.data, leading(a), add ? T(1) : T(0), C.data,
          static_cast<int>(C.row));
}

template void blas_multiply(Index, Index, Index, const Matrix<const float>&,
                            const Matrix<const float>&, const Matrix<float>&, bool);
template void blas_multiply(Index, Index, Index, const Matrix<const double>&,
                            const Matrix<const double>&, const Matrix<double>&, bool);

}  // namespace tete::cpu_kernels
