// The reading of expressions: text in, nodes whose names are resolved out.
//
// A Reading is of one statement. The names on its left are what its expressions may have (R2): they
// flow down through operators and elementwise functions, and stop at functions whose arguments are
// tensors with their dimensions, like einsum. The checks of functions (nn/language/builtins/) are
// given the Reading that met the call.
#pragma once
#include "nn/language/check/draft.hpp"

namespace tete {

class Reading {
 public:
  // Of the right side of a statement; `expected` are the names of its left, merged ones in parts.
  Reading(Instance& in, const RefText& left, const Names& expected)
      : in(in), left(&left), expected(expected) {}
  // Of what is known from sizes alone.
  explicit Reading(Instance& in) : in(in) {}

  Instance& in;
  const RefText* left = nullptr;
  Names expected = {};

  Node expression(const ExprText& e);
  // A number that sizes decide. `what` it is, for the error.
  static Node quantity(Instance& in, const ExprText& e, const char* what);

  // For the checks of functions.

  // An argument that is a tensor with its dimensions; `who` takes it.
  Node tensor(const ExprText& e, const Builtin& who);
  // An argument that is a dimension, by its name.
  int dimension_argument(const ExprText& e, const Builtin& who);
  // The names of all of `args`, in the order of the left.
  Names joined(const std::vector<Node>& args) const;
  // `names`, which the call `e` gives, are all on the left.
  void refuse_unexpected(const ExprText& e, const Names& names) const;
  // The dimension of the call's first key is one of `arg`. `what` that is: "what is reduced".
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
