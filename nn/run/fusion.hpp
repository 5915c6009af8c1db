// The rows of the table of fusions.
#pragma once
#include <optional>

#include "nn/run/runner.hpp"

namespace tete {

struct FusionRow {
  bool (*fits)(const Checked& program, const Node& node, Fusion& found);
  // No value if the numbers of this call do not fit; then the expression runs as it is written.
  std::optional<Value> (*run)(Runner& runner, const Node& node, const Fusion& fusion);
  // How many numbers the call stores for each query of a sample in the place of the values inside;
  // nothing if it stores these. Null: it does.
  std::optional<double> (*stores)(Runner& runner, const Fusion& fusion) = nullptr;
  // True if this call fits, and the memory of its value and of its gradient is linear in the
  // lengths for the whole batch. Null: false.
  bool (*runs_whole)(Runner& runner, const Fusion& fusion) = nullptr;
  // True if it rounds otherwise than the steps: then it runs even if a value inside is watched, as
  // looking changes no bit.
  bool rounds_otherwise = false;
};

// A dimension that a statement merges on its left, h=(g s), and its readers split again. None: -1.
struct Merge {
  int whole = -1;
  Names parts = {};
  // These names, the parts in the place of the whole.
  Names parted(const Names& names) const;
  bool operator==(const Merge&) const = default;
};

// The expression that computes `node`: itself, or the right side of the statement that it refers
// to; null if that reference splits, renames or picks. With `merge` it may split one dimension that
// the statement merges, the same in all that is read. `inside` gets the statement, and the values
// on the way to it that are the same under another name.
const Node* written_for(const Checked& program, const Node& node, std::vector<int>& inside,
                        Merge* merge = nullptr);

// True if `all` has each of these names.
bool includes(const Names& all, const Names& names);
// The names of the first that the second lacks.
Names lacking(const Names& names, const Names& known);
// True for an einsum of two operands (products.cpp).
bool is_product_of_two(const Node& node);
// True for one of real operands that is no sum over strips.
bool is_product(const Node& node);

// An einsum of x and a matrix that puts one name in the place of another one; x is null if it is
// none.
struct Mix {
  const Node *x = nullptr, *matrix = nullptr;
  int from = -1, to = -1;
};
Mix mix_in(const Node& node);

// An expression over queries n and a memory m that has one number for each distance of the two.
struct ByDistance {
  int n, m;
  std::vector<int> given = {};  // values without n and m that it reads
  bool learned = false;         // a gradient goes through one of them
};
// None if the expression reads n and m otherwise (by_distance.cpp). `inside` gets the statements on
// the way, which nothing else reads.
std::optional<ByDistance> find_by_distance(const Checked& program, const Node& node, int n, int m,
                                           std::vector<int>& inside);

// einsum(softmax(einsum(Q, K)), V), with or without mixes of heads around the softmax, factors and
// biases of the logits, and dropout (attention.hpp)
extern const FusionRow attention_row;

}  // namespace tete
