// Softmax attention as one operation of core, attend: an einsum of queries and a memory over one
// name, its softmax over the memory, and an einsum with what the memory holds; heads may be mixed
// between. It is found by its names:
//
//   J[n, m, h_k, …] = einsum(Q[n, c, h_k, …], K[m, c, h_k, …])    … is in all of them
//   L[n, m, h, …]   = einsum(J[n, m, h_k, …], P_l[h_k, h])
//   W[n, m, h, …]   = softmax(L[n, m, h, …], reduced_dim=m)
//   U[n, m, h_v, …] = einsum(W[n, m, h, …], P_w[h, h_v])
//   O[n, e, h_v, …] = einsum(U[n, m, h_v, …], V[m, e, h_v, …])
//
// Without P_l, h_k is h; without P_w, h_v is h; without both, heads are among the others.
#include <algorithm>

#include "nn/language/builtins/softmax.hpp"
#include "nn/run/fusion.hpp"

namespace tete {

namespace {

// The operands and their names; where no heads are mixed, names of heads are -1 and matrices null.
struct Attention {
  const Node *Q = nullptr, *K = nullptr, *V = nullptr, *P_l = nullptr, *P_w = nullptr;
  int n = -1, m = -1, c = -1, e = -1, h_k = -1, h = -1, h_v = -1;
  Names others;  // …

  Names with(int heads, int row, int column) const {
    Names names = others;
    if (heads >= 0) names.push_back(heads);
    names.push_back(row), names.push_back(column);
    return names;
  }
};

bool same_names(const Names& a, const Names& b) {
  return a.size() == b.size() &&
         std::all_of(a.begin(), a.end(), [&](int name) { return b.contains(name); });
}

// The only name of `names` that is not among `known`; -1 if there are none or several.
int only_other(const Names& names, const Names& known) {
  int other = -1;
  for (int name : names) {
    if (known.contains(name)) continue;
    if (other >= 0) return -1;
    other = name;
  }
  return other;
}

// The order of Fusion::operands; a missing mix is a node without arguments.
enum Part { last_part, softmax_part, products_part, before_part, after_part };

// Sets the mixes and their names; false if the second does not mix the heads that the first makes.
bool read_mixes(const Fusion& fusion, Attention& found) {
  const Mix before = mix_in(fusion.operands[before_part]),
            after = mix_in(fusion.operands[after_part]);
  if (before.x) found.P_l = before.matrix, found.h_k = before.from, found.h = found.h_v = before.to;
  if (!after.x) return true;
  if (!before.x) found.h_k = found.h = after.from;
  found.P_w = after.matrix, found.h_v = after.to;
  return found.h == after.from;
}

// U is argument number `weights` of the last einsum.
std::optional<Attention> read(const Fusion& fusion, int weights) {
  const Node &last = fusion.operands[last_part], &softmax = fusion.operands[softmax_part],
             &products = fusion.operands[products_part];
  Attention found;
  if (!read_mixes(fusion, found)) return {};
  found.V = &last.args[1 - weights], found.m = softmax.dim();
  for (int i : {0, 1})
    if (products.args[i].names.contains(found.m))
      found.K = &products.args[i], found.Q = &products.args[1 - i];
  if (!found.K || found.Q->names.contains(found.m)) return {};
  found.n = only_other(found.Q->names, found.K->names);
  found.c = only_other(found.Q->names, products.names);
  found.e = only_other(found.V->names, last.args[weights].names);
  if (found.n < 0 || found.c < 0 || found.e < 0) return {};
  found.others = found.Q->names.without(found.n).without(found.c);
  if (found.h_k >= 0) found.others = found.others.without(found.h_k);
  const bool fit = same_names(found.Q->names, found.with(found.h_k, found.n, found.c)) &&
                   same_names(found.K->names, found.with(found.h_k, found.m, found.c)) &&
                   same_names(products.names, found.with(found.h_k, found.n, found.m)) &&
                   same_names(softmax.names, found.with(found.h, found.n, found.m)) &&
                   same_names(found.V->names, found.with(found.h_v, found.m, found.e)) &&
                   same_names(last.names, found.with(found.h_v, found.n, found.e));
  return fit ? std::optional(found) : std::nullopt;
}

std::optional<Attention> attention_in(const Fusion& fusion) {
  const Node &last = fusion.operands[last_part], &after = fusion.operands[after_part],
             &weights = after.args.empty() ? fusion.operands[softmax_part] : after;
  for (int i : {0, 1})
    if (same_names(last.args[i].names, weights.names))
      if (const auto found = read(fusion, i)) return found;
  return {};
}

// An operand's expression; if it was reached through a mix, that is `mix`, else it has no
// arguments.
struct Reading {
  const Node* node;
  Node mix;
  std::vector<int> inside;
};
// Returns the operand as it is and, if it is a mix, what it mixes.
std::vector<Reading> ways_to_read(const Checked& program, const Node& arg) {
  std::vector<int> inside;
  const Node* const node = written_for(program, arg, inside);
  if (!node) return {};
  std::vector<Reading> ways{{node, {}, inside}};
  if (const Mix mix = mix_in(*node); mix.x)
    if (const Node* const mixed = written_for(program, *mix.x, inside))
      ways.push_back({mixed, *node, inside});
  return ways;
}

bool fits_attention(const Checked& program, const Node& node, Fusion& found) {
  if (!is_product(node)) return false;
  for (const Node& arg : node.args)
    for (const Reading& weights : ways_to_read(program, arg)) {
      if (!is_plain_softmax(*weights.node)) continue;
      for (const Reading& logits : ways_to_read(program, weights.node->args[0])) {
        if (!is_product(*logits.node)) continue;
        Fusion candidate{found.row, {node, *weights.node, *logits.node, logits.mix, weights.mix}};
        candidate.inside = weights.inside;
        candidate.inside.insert(candidate.inside.end(), logits.inside.begin(), logits.inside.end());
        if (attention_in(candidate)) return found = candidate, true;
      }
    }
  return false;
}

// The largest number of heads that are mixed, 0 if none are.
Index mixed_heads(Runner& runner, const Attention& found) {
  Index most = 0;
  for (int heads : {found.h_k, found.h, found.h_v})
    if (heads >= 0) most = std::max(most, runner.size(heads));
  return most;
}

// Attention stays f32 where products are of bfloat16: those would store logits and weights, and
// take as long.
std::optional<Value> run_attention(Runner& runner, const Node& node, const Fusion& fusion) {
  const Attention found = *attention_in(fusion);
  if (!runner.device().attends(runner.size(found.n), mixed_heads(runner, found))) return {};
  const Node& softmax = fusion.operands[softmax_part];
  const Value P_l = found.P_l ? runner.node(*found.P_l) : Value{},
              P_w = found.P_w ? runner.node(*found.P_w) : Value{};
  if (P_l.batched || P_w.batched) return {};
  const Value Q = runner.node(*found.Q), K = runner.node(*found.K), V = runner.node(*found.V);
  const std::optional<Index> shown = shown_to_first(runner, softmax, found.n);
  const Value mask = shown ? Value{} : mask_of_softmax(runner, softmax);
  const bool batched = Q.batched || K.batched || V.batched || mask.batched;
  const auto with = [&](const Value& v, const Names& names, bool samples) {
    return v.tensor ? runner.aligned(v, names, samples).tensor : Tensor();
  };
  const Tensor y = attend(with(Q, found.with(found.h_k, found.n, found.c), batched),
                          with(K, found.with(found.h_k, found.m, found.c), batched),
                          with(V, found.with(found.h_v, found.m, found.e), batched),
                          {.mask = with(mask, found.with(found.h, found.n, found.m), batched),
                           .shown = shown.value_or(shows_all),
                           .before = with(P_l, {found.h_k, found.h}, false),
                           .after = with(P_w, {found.h, found.h_v}, false)});
  const Names names = found.with(found.h_v, found.n, found.e);
  return runner.aligned({y, names, batched}, node.names, batched);
}

// A row of the mask, unless that is but a number. Too low if matrices of mixes differ by sample:
// these are not known before the run.
std::optional<double> stores(Runner& runner, const Fusion& fusion) {
  const Attention found = *attention_in(fusion);
  if (!runner.device().attends(runner.rows_of_block(found.n), mixed_heads(runner, found)))
    return {};
  const bool is_number = shown_to_first(runner, fusion.operands[softmax_part], found.n).has_value();
  return is_number ? 0.0 : static_cast<double>(runner.size(found.m));
}

}  // namespace

const FusionRow attention_row{fits_attention, run_attention, stores, true};

}  // namespace tete
