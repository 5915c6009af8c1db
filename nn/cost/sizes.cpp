#include "nn/cost/sizes.hpp"

#include <algorithm>

namespace tete {

namespace {

[[noreturn]] void too_large() {
  bad_input("these sizes are too large: the cost does not fit in 63 bits");
}

constexpr int deepest = 1000;  // sizes that follow from sizes; circles end here

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

// What a call passes for a dimension, or what it leaves open, is the caller's. Queries and memory
// stay two names, also where they are one sequence (R4).
int CostSizes::outermost(int dim) const {
  for (int depth = 0; depth < deepest; ++depth) {
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
    return std::pair(rank(a), dimension(a).name) < std::pair(rank(b), dimension(b).name);
  });
  std::string all;
  for (int dim : dims) all += (all.empty() ? "" : "*") + dimension(dim).name;
  return all.empty() ? "1" : all;
}

bool CostSizes::grows_with(int dim, Role role) const { return grows_with(dim, role, 0); }

bool CostSizes::grows_with(int dim, Role role, int depth) const {
  const Dimension& d = dimension(dim);
  if (d.role != Role::none || depth > 8) return d.role == role;
  if (!d.arguments.empty()) return grows_with(d.arguments[0].dim, role, depth + 1);
  for (const Node& where : d.fallback)
    if (mentions(where, role, depth + 1)) return true;
  for (int part : d.product)
    if (grows_with(part, role, depth + 1)) return true;
  return false;
}

bool CostSizes::mentions(const Node& node, Role role, int depth) const {
  if (node.kind == Node::Kind::size) return grows_with(node.index, role, depth);
  return std::any_of(node.args.begin(), node.args.end(),
                     [&](const Node& arg) { return mentions(arg, role, depth); });
}

}  // namespace tete
