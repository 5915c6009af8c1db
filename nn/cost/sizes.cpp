#include "nn/cost/sizes.hpp"

#include <algorithm>

namespace tete {

namespace {

[[noreturn]] void too_large() {
  bad_input("these sizes are too large: the cost does not fit in 63 bits");
}

constexpr int longest_chain = 1000;  // sizes that follow from sizes; a circle ends here

}  // namespace

Index exact_product(Index a, Index b) {
  Index product = 0;
  if (__builtin_mul_overflow(a, b, &product)) too_large();
  return product;
}

Index exact_sum(Index a, Index b) {
  Index sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) too_large();
  return sum;
}

// Follows a called def's dimension to the caller's: the one that is passed for it, or the one of
// the same name if it is open. Queries and memory stay two names even if they are one sequence
// (R4).
int CostSizes::outermost(int dim) const {
  for (int depth = 0; depth < longest_chain; ++depth) {
    const Dimension& d = dimension(dim);
    const bool is_own = !d.fallback.empty() || !d.product.empty();
    const int outer = !d.arguments.empty() ? d.arguments[0].dim : is_own ? -1 : d.outer;
    if (outer < 0 || dimension(outer).role != d.role) return dim;
    dim = outer;
  }
  return dim;
}

std::string CostSizes::product(Dims dims) const {
  const auto rank = [this](int dim) {
    const Role role = dimension(dim).role;
    return role == Role::query ? 0 : role == Role::memory ? 1 : 2;
  };
  for (int& dim : dims) dim = outermost(dim);
  std::sort(dims.begin(), dims.end(), [&](int a, int b) {
    return std::pair(rank(a), name(a)) < std::pair(rank(b), name(b));
  });
  std::string all;
  for (int dim : dims) all += (all.empty() ? "" : "*") + name(dim);
  return all.empty() ? "1" : all;
}

}  // namespace tete
