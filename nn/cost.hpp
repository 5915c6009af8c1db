// What a program costs: multiplies, parameters and memory, by the names of its sizes as the papers
// write them ("n*m*h*h_k") and in numbers. Nothing is computed: the text and a size table say it.
//
// Counted (R16), for one sequence, without the batch:
//   einsum                             each pair of the cheapest order: the product of all its
//   names a product of two tensors           its result, where both have dimensions everything else
//   nothing: softmax, sums, products with a number
// What is made of parameters alone is computed once for a whole batch.
#pragma once
#include "nn/language/sizes.hpp"

namespace tete {

// A sum of products of sizes. Sequences come first in a product, the queries' before the memory's,
// then other names in the order of their letters.
class Formula {
 public:
  void add(const std::string& product);
  Formula& operator+=(const Formula& other);
  // "n*m*d_k*h + n*m*h*h_k", "2*n*m*h", "0" where there is nothing.
  std::string text() const;
  bool empty() const { return terms_.empty(); }

 private:
  std::vector<std::pair<std::string, Index>> terms_;  // a product and how often it stands
};

struct Count {
  Formula formula = {};
  Index multiplies = 0;
  Index naive = 0;    // as one loop over all names of each einsum
  Index visible = 0;  // of these, between a query and what the masks leave it of the memory
  Count& operator+=(const Count& other);
};

// One einsum or one product of two tensors.
struct ProductCost {
  Place place;  // its name or operator
  int value;    // the statement that it is in
  Count count = {};
};

struct StatementCost {
  int value;
  Count count = {};
  bool once = false;  // it is made of parameters alone
  // Of what it makes, steps on the way included, as far as a gradient goes through it.
  size_t bytes = 0;
  bool tile = false;  // it has rows of both sequences
};

struct ParameterCost {
  int parameter;  // of Checked::parameters
  Formula formula = {};
  Index size = 0;
};

// Its places are in the program's texts.
struct Cost {
  std::vector<StatementCost> statements;  // in the order of evaluation
  std::vector<ProductCost> products;
  std::vector<ParameterCost> parameter_sizes;

  Count total = {};
  Index once = 0;  // of total.multiplies: for a whole batch
  Formula parameter_formula = {};
  Index parameters = 0;        // that are learned
  Index fixed_parameters = 0;  // that are not
  bool visible_known = true;   // false: there are too many pairs to count the text's own masks
  // What the statements make of one sequence on the way of a gradient, of which a run holds for it
  // what its rules read again (core/graph.hpp, Saved); and what is left of it if the program's
  // tile is held for one block of `tile_queries` only (nn/tile/tile.hpp).
  size_t bytes = 0, tiled_bytes = 0;
  Index tile_queries = 0;  // 0: there is no tile
  // What is in the way of a tile: then rows of both sequences are held whole.
  std::vector<Place> whole_because = {};
};

struct CostOptions {
  bool causal = false;  // the call's mask; the text's own masks are counted in any case
  Dtype dtype = Dtype::f32;
};

// Every size must be known or follow; `sizes` gets the rest. Fails (input) as a call would: on
// sizes that are open or contradict, on a causal mask that no statement takes or that the text does
// not keep; and on numbers that do not fit 63 bits.
Cost cost_of(const Checked& program, SizeTable& sizes, const CostOptions& options = {});

}  // namespace tete
