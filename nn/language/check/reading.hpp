// Reads expressions: turns their text into nodes with resolved names.
//
// A Reading is of one statement. Its expressions may have the names on its left (R2): these names
// flow down through operators and elementwise functions, and stop at functions whose arguments are
// tensors with their dimensions, like einsum. The checks of functions (nn/language/builtins/) are
// given the Reading that met the call.
#pragma once
#include "nn/language/check/draft.hpp"

namespace tete {

class Reading {
 public:
  // Reads the right side of a statement. `expected` are the names of its left, with merged ones as
  // their parts.
  Reading(Instance& in, const StatementText& s, const Names& expected)
      : in(in), left(&s.left), right(&s.right), expected(expected) {}
  // Reads an expression of numbers and sizes.
  explicit Reading(Instance& in) : in(in) {}

  Instance& in;
  const RefText* left = nullptr;
  const ExprText* right = nullptr;  // the whole of it
  Names expected = {};

  Node expression(const ExprText& e);
  // A number that follows from sizes. `what` is its name in the error.
  static Node quantity(Instance& in, const ExprText& e, const char* what);

  // For the checks of functions.

  // An argument of the function `who` that must be a tensor with its dimensions.
  Node tensor(const ExprText& e, const Builtin& who);
  // An argument of the function `who` that must be the name of a dimension.
  int dimension_argument(const ExprText& e, const Builtin& who);
  // The names of all of `args` together, in the order of the left.
  Names joined(const std::vector<Node>& args) const;
  // Fails unless all `names`, which the result of the call `e` has, are on the left.
  void refuse_unexpected(const ExprText& e, const Names& names) const;
  // Fails unless `arg` has the dimension that the call's first key names. `what` is the argument's
  // name in the error: "what is reduced".
  void need_dim(const Node& call, const Node& arg, const std::string& what) const;

 private:
  int dimension(const Word& word);
  void check_expected(const RefText& ref, const Node& node) const;
  Node operation(const ExprText& e);
  Node call(const ExprText& e);
  void read_keys(const ExprText& e, Node& node);
  void read_key(const ExprText& value, const KeyRow& row, Node::Key& key);
  [[noreturn]] void unknown_function(const ExprText& e) const;
};

// Fails unless the elements of `node` can serve as `element`. `who` needs them: "mask=".
void need(const Node& node, Element element, const std::string& who);

}  // namespace tete
