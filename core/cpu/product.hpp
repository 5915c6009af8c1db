// A contraction as numbers: which dimensions it has, and how they lie in the two operands A, B
// and the result Y. contract.cpp says how one is computed.
#pragma once
#include <array>

#include "core/shape.hpp"

namespace tete::cpu_kernels {

enum Operand { in_a, in_b, in_y };

// One dimension: its stride in each operand, and which operands have it.
struct Dim {
  Index size = 1;
  std::array<Index, 3> stride{};
  std::array<Index, 3> before{};  // strides before an operand was packed
  std::array<bool, 3> present{};
};
using Dims = Short<Dim>;

// Dimensions by the operands that have them.
struct Groups {
  Dims batch;  // A, B and Y
  Dims m;      // A and Y
  Dims n;      // B and Y
  Dims k;      // A and B: summed
};

inline Index size_of(const Dims& dims) {
  Index size = 1;
  for (const Dim& d : dims) size *= d.size;
  return size;
}

}  // namespace tete::cpu_kernels
