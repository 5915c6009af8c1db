// Softmax attention as one operation of core, attend: an einsum of queries and a memory over one
// name, its softmax over the memory, and an einsum with what the memory holds. It is found by its
// names:
//
//   J[n, m, h_k, …] = einsum(Q[n, c, h_k, …], K[m, c, h_k, …])    … is in all of them
//   L[n, m, h, …]   = einsum(J[n, m, h_k, …], P_l[h_k, h]) + B
//   W[n, m, h, …]   = softmax(L[n, m, h, …], reduced_dim=m)
//   U[n, m, h_v, …] = einsum(W[n, m, h, …], P_w[h, h_v])
//   O[n, e, h_v, …] = einsum(U[n, m, h_v, …], V[m, e, h_v, …])
//
// Without P_l, h_k is h; without P_w, h_v is h; without both, heads are among the others. K and V
// may lack all names but their own: heads that read one memory. A factor of the logits that lacks
// m multiplies the queries, one that lacks n the keys, and dropout with one noise for all queries
// the values. A bias of relative positions is computed once for each distance (by_distance.cpp).
// Heads may be merged between the einsums, h=(g s). The last statement computes all of it, operands
// in the statements before, too.
#pragma once
#include "nn/run/fusion.hpp"

namespace tete {

// Names of an expression, and those that they have in the text of the attention: an amendment has
// its own.
struct Renamed {
  Names own = {}, names = {};

  int operator()(int name) const {
    const int at = own.find(name);
    return at < 0 ? name : names[at];
  }
  Names operator()(const Names& all) const {
    Names changed;
    for (int name : all) changed.push_back((*this)(name));
    return changed;
  }
  Value operator()(const Value& v) const { return {v.tensor, (*this)(v.names), v.batched}; }
};

// An operand of + - * / beside the logits.
struct Beside {
  Operator op;
  Node by;
  Renamed names;
};

// The operands and their names. Without a mix, its matrix has no value; without both, names of
// heads are -1.
struct FusedAttention {
  Node Q, K, V, softmax;
  std::optional<Node> P_l, P_w;
  std::vector<Beside> factors, addends;
  std::optional<ByDistance> bias, mask;  // the only addend and the own mask, if by distance
  int n = -1, m = -1, c = -1, e = -1, h_k = -1, h = -1, h_v = -1;
  Names others;  // …
  Merge merge;
  int dropped = -1;  // the statement that drops weights; -1: none
  Renamed weights;   // their names in it

  Names with(int heads, int row, int column) const {
    Names names = others;
    if (heads >= 0) names.push_back(heads);
    names.push_back(row), names.push_back(column);
    return names;
  }
  bool mixes() const { return P_l || P_w; }
};

// Finds the attention whose last einsum is `node` (find_attention.cpp).
bool fits_attention(const Checked& program, const Node& node, Fusion& found);

}  // namespace tete
