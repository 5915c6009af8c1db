// The common includes of nn/language/builtins/: the row of a function, the arguments of its check,
// run and flow, and what the checks and flows of several functions share.
#pragma once
#include "nn/flow/finder.hpp"
#include "nn/language/check/reading.hpp"
#include "nn/run/runner.hpp"

namespace tete {

// The value of a key, or null if it is not given.
inline const Node* value_of(const Node& node, size_t key) {
  return node.keys[key].value.empty() ? nullptr : &node.keys[key].value[0];
}

// Spells names for a pattern: b0 b1 … for the batch, x7 for dimension 7, [x7] if it is marked, and
// a space after each.
std::string spelled(const Runner& runner, const Names& names, bool batched, int marked = -1);
// The number that a key gives, or its default.
double number_of_key(Runner& runner, const Node& node, size_t key, double otherwise);

// Reads the first argument: a tensor with the dimension that the call's first key names. `what` is
// its name in the error: "what is reduced".
const Node& read_tensor(Reading& reading, const ExprText& e, Node& node, const char* what);
// Fails if `dim`, which a key of the call makes, is a dimension of its first argument already.
void refuse_known(const Reading& reading, const ExprText& e, const Node& node, size_t key, int dim);
// Gives the result the names `kept` of its arguments and those that the call makes, in the order of
// the left; fails if one is not there.
void set_names(const Reading& reading, const ExprText& e, const Names& kept, const Names& made,
               Node& node);

// For functions along one dimension that the result keeps: reads the argument and gives the result
// its names; the key's dimension must be among them.
void check_along(Reading& reading, const ExprText& e, Node& node);
// A norm over a sequence combines all its positions, and nothing that is hidden is neutral to it.
void combines_along(FlowFinder& finder, const CallFlow& call, ValueFlow& out);

// The result is 0 where the first argument is hidden as 0.
void keep_hidden_zeros(const CallFlow& call, ValueFlow& out);

}  // namespace tete
