// How the processor computes a contraction.
#pragma once
#include <vector>

#include "core/cpu/matrices.hpp"

namespace tete::cpu_kernels {

// The dimensions of a contraction that are longer than 1. An operand that is constant along one
// (stride 0) counts as if it lacked it.
std::vector<Dim> dimensions(const View& A, const Labels& a, const View& B, const Labels& b,
                            const View& Y, const Labels& y);
// True if A alone has the dimension, or B: it is summed before any product.
bool only_a(const Dim& d);
bool only_b(const Dim& d);
Groups grouped(const std::vector<Dim>& dims);

enum class Method : uint8_t {
  zeros,
  product,
  sum_of_products,
  lanes,
  pair,
  mix,  // by matrices, but in full precision always
  matrices
};

struct Choice {
  Method method = Method::zeros;
  Groups groups = {};  // merged, for the small-matrix kernels
  MatrixPlan matrices = {};
};
// The fastest way, as far as sizes and strides tell. No dimension is one operand's alone.
Choice choose(const std::vector<Dim>& dims);

}  // namespace tete::cpu_kernels
