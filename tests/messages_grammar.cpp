// Each text that cannot be read is refused with its sentence, at its place.
#include "tests/marked.hpp"

using namespace tete;

TEST_SUITE("messages") {
  TEST_CASE("what cannot be read is one sentence with line, column and carets") {
    const Marked rows[] = {
        {"expected 'def': the text holds no program", "«»"},
        {"expected 'def': the text holds no program", "# only a comment\n«»"},
        {"expected 'def', but here 'Y' stands", "«Y»[n] = X[n]\n"},
        {"expected the def's name, but here '(' stands", "def «(»X[n]):\n"},
        {"nothing is open that ')' closes", "def F X[n]«)»:\n"},
        {"expected '(' after 'F', but here 'X' stands", "def F «X»[n]:\n"},
        {"this '(' is never closed", "def F«(»X[n]\n  return X[n]\n"},
        {"')' does not close the '[' that is open", "def F(X‹[›n«)»]:\n"},
        {"expected ':' after the arguments, but here the line ends",
         "def F(X[n])«»\n  return X[n]\n"},
        {"expected '[': a tensor is always written with its dimensions, as in X[n, d], but here "
         "')' stands",
         "def F(X«)»:\n  return X[n]\n"},
        {"'X' is a tensor: write it with its dimensions",
         "def F(X[n]):\n  Y[n] = «X»\n  return Y[n]\n"},
        {"expected ',' or ')' after an argument, but here 'Z' stands", "def F(X[n] «Z»[n]):\n"},
        {"expected ',' or ']' after a dimension, but here 'm' stands", "def F(X[n «m»]):\n"},
        {"'def' is a word of the notation; expected an argument: a tensor with its dimensions",
         "def F(X[n], «def»[n]):\n"},
        {"'$' has no meaning here", "def F(X[n]):\n  Y[n] = X[n] «$» 2\n"},
        {"'∑' (U+2211) has no meaning here", "def F(X[n]):\n  Y[n] = X[n] «∑» 2\n"},
        {"a name has at most 100 letters, this has 101",
         "def "
         "«aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaaa"
         "aaaaaaaaa»(X[n]):\n"},
        {"a number ends where a name begins; write an operator or a space between them",
         "def F(X[n]):\n  Y[n] = «2n»\n"},
        {"'1e999' is not a number that can be represented", "def F(X[n]):\n  Y[n] = «1e999»\n"},
        {"expected '=' after 'Y[…]', but here 'X' stands", "def F(X[n]):\n  Y[n] «X»[n]\n"},
        {"expected a tensor, a number, a dimension or a function, but here the line ends",
         "def F(X[n]):\n  Y[n] =«»\n  return Y[n]\n"},
        {"expected a tensor, a number, a dimension or a function, but here the line ends",
         "def F(X[n]):\n  Y[n] = X[n] +«»\n  return Y[n]\n"},
        {"expected an operator or the end of the line, but here 'X' stands",
         "def F(X[n]):\n  Y[n] = X[n] «X»[n]\n"},
        {"comparisons do not chain; write 'a < b and b < c'",
         "def F(X[n]):\n  Y[n] = X[n] < 1 «<» 2\n"},
        {"expected a statement or 'return', but here the text ends",
         "def F(X[n]):\n  Y[n] = X[n]\n«»"},
        {"expected a statement or 'return', but here 'def' stands",
         "def F(X[n]):\n  Y[n] = X[n]\n«def» G(X[n]):\n  return X[n]\n"},
        {"expected '[': a tensor is always written with its dimensions, as in X[n, d], but here "
         "the line ends",
         "def F(X[n]):\n  return X«»\n"},
        {"expected the end of the line after the result, but here '+' stands",
         "def F(X[n]):\n  return X[n] «+» 1\n"},
        {"'where' stands once, before the first statement",
         "def F(X[n]):\n  Y[n] = X[n]\n  «where» d = 2\n"},
        {"expected '=' after 'd', but here '2' stands", "def F(X[n]):\n  where d «2»\n"},
        {"expected ',' or the end of the line after a size, but here 'e' stands",
         "def F(X[n]):\n  where d = 2 «e» = 3\n"},
        {"expected the dimensions that the axis is made of, but here ')' stands",
         "def F(X[n, h=(«)»]):\n"},
        {"expected '(' and the dimensions that 'h' is made of, but here 'g' stands",
         "def F(X[n, h=«g»]):\n"},
        {"an element is picked by its number alone: write Q[n, h=(g k), 0, m]",
         "def F(X[n]):\n  Y[n] = 2 * Q[n, h=(g k),\n «s=0», m]\n"},
        {"'1.5' is not the number of an element, a whole one from 0", "def F(X[n, «1.5»]):\n"},
        {"expected how the parameter starts, as in normal(0.1), or an input, but here '3' stands",
         "def F(X[n], P[n] = «3»):\n"},
        {"expected one initialiser, as in normal(0.1), but this is an expression",
         "def F(X[n], P[n] = ones() «+» 1):\n"},
        {"expected 'stack' after 'per', but here 'layer' stands",
         "def F(X[n], P[n] = ones() per «layer»):\n"},
        {"an argument without a name stands before those with one",
         "def F(X[n]):\n  Y[n] = softmax(reduced_dim=n, «X»[n])\n"},
        {"this '(' is never closed", "def F(X[n]):\n  Y[n] = einsum«(»X[n]\n"},
        {"'F' is defined twice", "def ‹F›(X[n]):\n  return X[n]\ndef «F»(X[n]):\n  return X[n]\n"},
        {"expected an operator or ')', but here 'w' stands",
         "def F(X[n], Z[o, w]):\n  Y[n] = X[n] + (o «w»)\n  return Y[n]\n"},
        {"nothing is open that ']' closes", "def F(X[n]):\n  Y[n] = X[n]«]»\n"},
        {"expected an operator or ')', but here 'w' stands",
         "def F(X[n], Z[o, w]):\n  Y[n] = X[n] + exp((o «w»))\n  return Y[n]\n"},
        {"expected a tensor, a number, a dimension or a function, but here '*' stands",
         "def F(X[n]):\n  Y[n] = X[n] +«*» 2\n"},
        {"this '(' is never closed", "def F(X[n]):\n  Y[n] = X[n] <= «(»2\n"},
    };
    check_messages(rows);
  }
}
