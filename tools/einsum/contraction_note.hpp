// How the processor computes a contraction, for those who explain it (tete einsum --explain).
#pragma once
#include <string>
#include <vector>

#include "core/backend.hpp"

namespace tete {

struct ContractionNote {
  std::string form;   // elementwise, dot, gemv, ger, gemm, batched gemm, loop, or zeros
  std::string shape;  // "48 products of 512×64×512"
  struct Copy {
    int operand;  // 0: A, 1: B, 2: Y
    size_t bytes;
    std::string why;
  };
  std::vector<Copy> copies = {};  // that live while it runs
};

namespace cpu_kernels {

// Backend::contract of the processor, not computed but described. Reads no memory.
ContractionNote describe_contraction(const View& A, const Labels& a, const View& B, const Labels& b,
                                     const View& Y, const Labels& y);

}  // namespace cpu_kernels
}  // namespace tete
