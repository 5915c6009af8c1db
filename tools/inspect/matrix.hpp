// Small matrices in double: what is asked of the ones that mix heads.
#pragma once
#include <complex>
#include <vector>

#include "core/tensor.hpp"

namespace tete {

struct Matrix {
  Index rows = 0, columns = 0;
  std::vector<double> values;  // row-major

  Matrix(Index rows, Index columns)
      : rows(rows), columns(columns), values(static_cast<size_t>(rows * columns)) {}
  explicit Matrix(const Tensor& x)
      : rows(x.size(0)), columns(x.size(1)), values(x.values<double>()) {}
  double& operator()(Index i, Index j) { return values[i * columns + j]; }
  double operator()(Index i, Index j) const { return values[i * columns + j]; }
};

// The determinant of a square matrix, by elimination with the largest pivot of each column.
double determinant(Matrix a);
// The largest first; as many as the smaller side has. One-sided Jacobi: columns are turned in pairs
// until all are orthogonal (Golub, Van Loan, section 8.6.3).
std::vector<double> singular_values(const Matrix& a);
// The eigenvalues of a square matrix, in no order: shifted QR steps on its Hessenberg form, in
// complex numbers (Golub, Van Loan, section 7.5). Fails (numbers) where they do not settle.
std::vector<std::complex<double>> eigenvalues(const Matrix& a);

}  // namespace tete
