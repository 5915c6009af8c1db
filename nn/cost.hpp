// The cost of a program: multiplies, parameters and memory, as products of named sizes, as papers
// write them ("n*m*h*h_k"), and in numbers. All follow from the text and a size table; nothing
// runs.
//
// Counted (R16), for one sequence, without the batch:
//   einsum          for each pair of the cheapest order, the product of all its sizes
//   a product       the size of its result, if both tensors have dimensions
//   all else        nothing: softmax, sums, products with a number
// A value that depends on parameters alone is computed once for a whole batch.
//
// As Mesh-TensorFlow counts, whose numbers Narang et al. 2021 print:
//   einsum          the same, but a convolution, an einsum of windows, is none
//   a look-up       gather from parameters at positions that inputs say: a product of the table
//                   with one-hot rows
//   all else        nothing: products, norms
#pragma once
#include "nn/language/sizes.hpp"

namespace tete {

// A sum of products of sizes. Sequences come first in a product, the queries' before the memory's,
// then other names in the order of their letters.
class Formula {
 public:
  void add(const std::string& product, Index times = 1);
  Formula& operator+=(const Formula& other);
  // Multiplies each product by the size of this name.
  void multiply(const std::string& size);
  void multiply(Index times);
  // "n*m*d_k*h + n*m*h*h_k", "2*n*m*h", or "0" for an empty sum.
  std::string text() const;
  bool empty() const { return terms_.empty(); }

 private:
  std::vector<std::pair<std::string, Index>> terms_;  // each product and its coefficient
};

struct Count {
  Formula formula = {};
  Index multiplies = 0;
  Index naive = 0;    // multiplies of one loop over all names of each einsum
  Index visible = 0;  // those of `multiplies` between a query and memory that masks leave visible
  Count& operator+=(const Count& other);
  void multiply(Index times);
};

// One einsum or one product of two tensors.
struct ProductCost {
  Place place;  // its name or operator
  int value;    // the statement that it is in
  Count count = {};
};

// A statement inside a call, in all repetitions that are filled alike.
struct InnerCost {
  std::string name;  // "decoder/*/A/Q"
  Count count = {};
};

struct StatementCost {
  int value;
  Count count = {};
  std::vector<InnerCost> inside = {};  // of a call: what its count is made of
  bool once = false;                   // true: it depends on parameters alone
  // Bytes of its result and of steps within it, if a gradient goes through them.
  size_t bytes = 0;
  bool tile = false;  // true: it has rows of both sequences
};

struct ParameterCost {
  std::string name;  // "P_q"; "Z/A/P_q" of a call, once for all its repetitions
  int value;         // -1: of a call
  Formula formula = {};
  Index size = 0;
  bool fixed = false, per_stack = false;
};

// The cost of a program. Its places point into the program's texts.
struct Cost {
  std::vector<StatementCost> statements;  // in the order of evaluation
  std::vector<ProductCost> products;
  std::vector<ParameterCost> parameter_sizes;

  Count total = {};
  Index once = 0;  // those of total.multiplies that are for a whole batch
  Formula parameter_formula = {};
  Index parameters = 0;        // numbers that are learned
  Index fixed_parameters = 0;  // numbers of parameters that are not learned
  bool visible_known = true;   // false: there are too many pairs to count the text's own masks
  // Bytes of the values of one sequence that a gradient goes through; a run stores those that
  // gradient rules read (core/graph.hpp, Saved), and of attention in one pass neither logits nor
  // weights. `tiled_bytes`: the same if values inside the tile
  // are stored for one block of `tile_queries` only (nn/tile/tile.hpp).
  size_t bytes = 0, tiled_bytes = 0;
  Index tile_queries = 0;  // 0: there is no tile
  // The places that prevent a tile, and why; values over both sequences are then stored whole.
  std::vector<Place> whole_because = {};
  std::string whole_reason = {};

  // Multiplies of so many sequences.
  Index of_batch(Index sequences) const;
};

enum class Counting : uint8_t { pairs, mesh };

struct CostOptions {
  bool causal = false;  // the call's mask; the text's own masks are counted in any case
  bool apart = false, of_model = false;  // as in Mask (nn/run.hpp)
  Dtype dtype = Dtype::f32;
  Counting counting = Counting::pairs;
};

// Every size must be known or follow from others; `sizes` receives those that follow. Fails (input)
// as a call would: on sizes that are open or contradict, on a causal mask that no statement takes
// or that the text leaks through; and on numbers that do not fit 63 bits.
Cost cost_of(const Checked& program, SizeTable& sizes, const CostOptions& options = {});

}  // namespace tete
