// One product of matrices, on the calling thread.
#pragma once
#include "core/backend.hpp"

namespace tete::cpu_kernels {

// A matrix by the strides of its two dimensions. One stride is 1; the other is at least a line's
// length.
template <class T>
struct Matrix {
  T* data;
  Index row, column;
};

// Terms of a sum at a time: a longer one is a sum of such sums, with the errors of short ones.
inline constexpr Index block_steps = 384;

// C = A B, or C += A B if `add`; C is m × n, A m × k. No size is 0. A and B have type X, C type Y:
// float, double, or Bf16 and float. A BlasOnOneThread (blas.hpp) is alive.
template <class X, class Y>
void multiply(Index m, Index n, Index k, const Matrix<const X>& A, const Matrix<const X>& B,
              const Matrix<Y>& C, bool add);

// B in panels of product_columns after each other, as the tiles of rows_product.cpp read them: from
// to + j·k on for column j, line p at p·product_columns. B is k × n; zeros follow its last column.
template <class T>
void lay_out(Index k, Index n, const Matrix<const T>& B, T* to);

// B, or a copy of it whose columns have stride 1, for several products: each would lay it out
// again. The copy is in the calling thread's memory until it asks for the next one; a large B has
// none.
template <class T>
Matrix<const T> in_lines(Index k, Index n, const Matrix<const T>& B);

// True if each number of C has the same bits however a product of such X is cut into products of
// parts of A and B, as its terms are added in one order. BLAS promises no such thing.
template <class X>
bool cuts_keep_bits();

}  // namespace tete::cpu_kernels
