// Helpers of counting: sizes, which fail where products overflow; one name for a dimension and for
// those that calls make of it; the dimensions that grow with a sequence; the pairs that masks leave
// visible (visible.cpp).
#pragma once
#include "nn/cost.hpp"

namespace tete {

// Fails if the result does not fit 63 bits.
Index exact_product(Index a, Index b);
Index exact_sum(Index a, Index b);

using Dims = std::vector<int>;  // as many as an einsum's operands have together

class CostSizes {
 public:
  // `names`: those of dimensions that a caller calls otherwise.
  CostSizes(const Checked& program, SizeTable& sizes, const std::map<int, std::string>& names = {})
      : program_(program), sizes_(sizes), names_(names) {}

  Index size(int dim) { return sizes_.size(dim); }
  Index elements(const auto& dims) {
    Index product = 1;
    for (int dim : dims) product = exact_product(product, size(dim));
    return product;
  }
  const Dimension& dimension(int dim) const { return program_.dimensions[dim]; }
  // "n*m*d_k*h", or "1" for none. A called def's dimension has the name of the one passed for it.
  std::string product(Dims dims) const;
  std::string name(int dim) const {
    const auto other = names_.find(dim = outermost(dim));
    return other == names_.end() ? dimension(dim).name : other->second;
  }
  // True if the dimension's size follows from a sequence's: it is the sequence, a part of it, or
  // computed from it in `where`.
  bool grows_with(int dim, Role role) const {
    const Role own = dimension(dim).role;
    return own == Role::none ? program_.flow.dimensions[dim].made_of(role) : own == role;
  }
  bool any_grows(const auto& dims, Role role) const {
    for (int dim : dims)
      if (grows_with(dim, role)) return true;
    return false;
  }

 private:
  int outermost(int dim) const;

  const Checked& program_;
  SizeTable& sizes_;
  std::map<int, std::string> names_;
};

// The `pairs` that the masks of one softmax leave visible, among `all` pairs of a query and a
// position that the softmax normalises over.
struct VisiblePairs {
  int query, memory;  // dimensions
  Index pairs, all;   // if heads have their own masks: the mean, rounded down
};
// The visible pairs of every softmax with the call's mask or a mask of the text. A mask that
// depends on inputs or learned parameters hides nothing here. Fails as a call with this mask and
// these sizes would.
struct Visible {
  std::vector<VisiblePairs> of_softmax = {};
  bool known = true;  // false: a text's own mask has too many pairs to be counted
};
Visible visible_pairs(const Checked& program, SizeTable& sizes, const CostOptions& options);

}  // namespace tete
