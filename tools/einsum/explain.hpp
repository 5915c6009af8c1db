// The steps of an einsum, before it takes them.
#pragma once
#include "core/ops.hpp"
#include "tools/einsum/rehearsal.hpp"

namespace tete {

// The plan of the value, or of the gradient of one operand.
struct EinsumPlan {
  struct Step {
    std::string what;  // "A[b n d_X], B[d_X d_k h] -> T1[b n d_k h]"
    KernelCall call;
  };
  std::string of;  // "value", "gradient of A"
  std::vector<Step> steps = {};
  double multiplies = 0;
  double naive_multiplies = 0;  // of one loop over every name at once
  size_t peak_bytes = 0;        // operands and results included; a gradient's, with its value's
};

// The plans of einsum(pattern, operands) and of the gradient of each operand, of which only shape,
// strides and type are read. Operands are called A, B, C …, the gradient of
// the result dY. Fails as einsum would.
std::vector<EinsumPlan> explain_einsum(const Pattern& pattern, const Tensors& operands,
                                       const EinsumOptions& options = {});

}  // namespace tete
