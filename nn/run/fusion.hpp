// The rows of the table of fusions.
#pragma once
#include <optional>

#include "nn/run/runner.hpp"

namespace tete {

struct FusionRow {
  bool (*fits)(const Checked& program, const Node& node, Fusion& found);
  // No value if the numbers of this call do not fit; then the expression runs as it is written.
  std::optional<Value> (*run)(Runner& runner, const Node& node, const Fusion& fusion);
  // True if the values inside will not be stored in this call. Null: they may be.
  bool (*stores_nothing)(Runner& runner, const Fusion& fusion) = nullptr;
  // True if its bits are not those of the steps. Then it runs beside them where somebody looks.
  bool rounds_otherwise = false;
};

// The expression that computes `node`: itself, or the right side of the statement that it refers
// to; null if that reference splits, renames or picks. `inside` gets the statement, and the values
// on the way to it that are the same under another name.
const Node* written_for(const Checked& program, const Node& node, std::vector<int>& inside);

// An einsum of two real operands.
bool is_product(const Node& node);

// einsum(softmax(einsum(Q, K)), V) (attention.cpp)
extern const FusionRow attention_row;

}  // namespace tete
