// A contraction as numbers: its dimensions and their strides in the operands A and B and the result
// Y. contract.cpp computes it.
#pragma once
#include <array>

#include "core/cpu/walk.hpp"

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

// The loops of a cursor over all of these dimensions.
inline Loops<3> loops_over(const Dims& dims) {
  Loops<3> loops;
  for (const Dim& d : dims) {
    loops.shape.push_back(d.size);
    for (int v = 0; v < 3; ++v) loops.strides[v].push_back(d.stride[v]);
  }
  loops.shape.push_back(1);  // the cursor steps over all but the innermost
  for (Strides& s : loops.strides) s.push_back(0);
  return loops;
}

}  // namespace tete::cpu_kernels
