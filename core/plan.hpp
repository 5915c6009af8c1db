// The contraction planner: in which order to multiply the operands of an einsum, two at a time.
// Pure: it sees labels and sizes, no tensors.
#pragma once
#include <limits>
#include <memory>
#include <vector>

#include "core/pattern.hpp"

namespace tete {

// Operands are numbered; a step multiplies two and appends its result under the next number.
struct PlanStep {
  int a, b;
  Labels result;  // labels that a later step or the final result needs
  double
      multiplies;  // the product of the sizes of the labels of a and b, once their own are summed
};

struct Plan {
  std::vector<PlanStep> steps;
  double multiplies = 0;        // of all steps
  double naive_multiplies = 0;  // of one loop over every label at once
};

inline constexpr double no_limit = std::numeric_limits<double>::infinity();

// The cheapest order in which no intermediate result has more than `most_elements`: of all orders,
// by search over subsets, up to 8 operands; beyond, pairs are joined greedily until 8 are left.
// Labels are smaller than max_names; ties go to the earlier operands. One operand: no step.
// Fails (resource) if no order that was tried stays within the limit.
Plan plan(const std::vector<Labels>& operands, const Labels& result, const Sizes& sizes,
          double most_elements = no_limit);

// The same, made once for equal arguments (the last few thousand are kept).
std::shared_ptr<const Plan> cached_plan(const std::vector<Labels>& operands, const Labels& result,
                                        const Sizes& sizes, double most_elements = no_limit);

}  // namespace tete
