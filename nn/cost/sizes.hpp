// Sizes as costs count them: products that fit, names that are the same under a call's, and which
// dimensions grow with a sequence.
#pragma once
#include "nn/cost.hpp"

namespace tete {

// Fails where the product does not fit 63 bits.
Index exact_product(Index a, Index b);
Index exact_sum(Index a, Index b);

using Dims = std::vector<int>;  // as many as an einsum's operands have together

class CostSizes {
 public:
  CostSizes(const Checked& program, SizeTable& sizes)
      : program_(program),
        sizes_(sizes),
        with_queries_(growing_with(Role::query)),
        with_memory_(growing_with(Role::memory)) {}

  Index size(int dim) { return sizes_.size(dim); }
  Index elements(const auto& dims) {
    Index product = 1;
    for (int dim : dims) product = exact_product(product, size(dim));
    return product;
  }
  const Dimension& dimension(int dim) const { return program_.dimensions[dim]; }
  // "n*m*d_k*h"; dimensions of a called def go by the names of what is passed. "1" for none.
  std::string product(Dims dims) const;
  // Whether its size follows a sequence's: the sequence itself, its parts, what `where` makes of
  // it.
  bool grows_with(int dim, Role role) const {
    return (role == Role::query ? with_queries_ : with_memory_)[dim];
  }
  int find(const auto& dims, Role role) const {
    for (int dim : dims)
      if (dimension(dim).role == role) return dim;
    return -1;
  }
  bool any_grows(const auto& dims, Role role) const {
    for (int dim : dims)
      if (grows_with(dim, role)) return true;
    return false;
  }

 private:
  int outermost(int dim) const;
  std::vector<bool> growing_with(Role role) const;

  const Checked& program_;
  SizeTable& sizes_;
  std::vector<bool> with_queries_, with_memory_;  // by dimension
};

// What each value is made of.
struct Origin {
  bool data = false;     // an input: every sequence of a batch has its own
  bool learned = false;  // an input or a parameter that is learned: a gradient goes through it
};
std::vector<Origin> origins_of(const Checked& program);
Origin origin_of(const Node& node, const std::vector<Origin>& values);

// What the masks of one softmax leave, of `all` pairs of a query and what it normalises over.
struct VisiblePairs {
  int query, memory;  // dimensions
  Index pairs, all;   // of masks by head the mean, rounded down
};
// Of every softmax that the call's mask or a mask of the text reaches. Masks that are made of data
// hide nothing here. Fails as a call with this mask and these sizes would.
struct Visible {
  std::vector<VisiblePairs> of_softmax = {};
  bool known = true;  // false: a text's own mask has too many pairs to be counted
};
Visible visible_pairs(const Checked& program, SizeTable& sizes, bool causal);

}  // namespace tete
