// Functions along a sequence that leave out what is hidden (R18): softmax, max, mean, …
#pragma once
#include "nn/language/builtins/builtin.hpp"

namespace tete {

// Notes which mask of the call the function takes, and checks mask=, its key number `key`. `names`
// are those of `x`, what is reduced.
void check_mask(Reading& reading, const Names& names, const Place& x, size_t key, Node& node);

// The value of mask= in a call of a function that hides positions, or null.
const Node* own_mask(const Node& call);

// Joins the masks that hide elements of a tensor with these names, that of the call and that of the
// key; no tensor if there is neither.
Value mask_of(Runner& runner, const Node& node, const Names& names, size_t key);

// A tensor that is reduced, and its visible elements: of x's shape, or none if all are.
struct Masked {
  Value x;
  Tensor visible;
};
Masked masked_argument(Runner& runner, const Node& node, const Value& x, size_t key);

// The flow of a function that reduces what the masks leave of its argument. Numbers that are hidden
// in the argument and neutral to the function are left out, too. Returns what the masks hide.
std::vector<Hidden> reduce_masked(FlowFinder& finder, const CallFlow& call, size_t key,
                                  FlowFinder::Neutral neutral, ValueFlow& out);

}  // namespace tete
