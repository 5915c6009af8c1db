// The contraction planner: in which order to multiply the operands of an einsum, two at a time.
// Pure: it sees labels and sizes, no tensors.
#pragma once
#include <vector>

#include "core/pattern.hpp"

namespace tete {

// Operands are numbered; a step multiplies two and appends its result under the next number.
struct PlanStep {
  int a, b;
  Labels result;      // labels that a later step or the final result needs
  double multiplies;  // the product of the sizes of all labels of a and b
};

struct Plan {
  std::vector<PlanStep> steps;
  double multiplies = 0;        // of all steps
  double naive_multiplies = 0;  // of one loop over every label at once
};

// The cheapest order: by exact search over subsets up to 8 operands, greedy (cheapest product
// next) beyond. Labels are smaller than max_names; ties go to the earlier operands. One operand: no
// step.
Plan plan(const std::vector<Labels>& operands, const Labels& result, const Sizes& sizes);

}  // namespace tete
