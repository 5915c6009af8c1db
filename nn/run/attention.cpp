// Softmax attention as one operation of core, attend: an einsum of queries and a memory over one
// name, its softmax over the memory, and an einsum with what the memory holds. It is found by its
// names:
//
//   L[n, m, …] = einsum(Q[n, c, …], K[m, c, …])   … is in all of them, as heads are
//   W[n, m, …] = softmax(L[n, m, …], reduced_dim=m)
//   O[n, e, …] = einsum(W[n, m, …], V[m, e, …])
#include <algorithm>

#include "nn/language/builtins/softmax.hpp"
#include "nn/run/fusion.hpp"

namespace tete {

namespace {

struct Attention {
  const Node *Q = nullptr, *K = nullptr, *V = nullptr;
  int n = -1, m = -1, c = -1, e = -1;
  Names others;  // …

  Names with(int row, int column) const {
    Names names = others;
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

// W is argument number `weights` of `last`.
std::optional<Attention> read(const Node& last, int weights, const Node& softmax,
                              const Node& logits) {
  Attention all;
  all.V = &last.args[1 - weights], all.m = softmax.dim();
  for (int i : {0, 1})
    if (logits.args[i].names.contains(all.m)) all.K = &logits.args[i], all.Q = &logits.args[1 - i];
  if (!all.K || all.Q->names.contains(all.m)) return {};
  all.n = only_other(all.Q->names, all.K->names), all.c = only_other(all.Q->names, logits.names);
  all.e = only_other(all.V->names, logits.names);
  if (all.n < 0 || all.c < 0 || all.e < 0) return {};
  all.others = all.Q->names.without(all.n).without(all.c);
  const bool fit = same_names(all.K->names, all.with(all.m, all.c)) &&
                   same_names(logits.names, all.with(all.n, all.m)) &&
                   same_names(all.V->names, all.with(all.m, all.e)) &&
                   same_names(last.names, all.with(all.n, all.e));
  return fit ? std::optional(all) : std::nullopt;
}

// The operands: the last einsum, the softmax and the logits.
std::optional<Attention> attention_in(const Fusion& fusion) {
  const Node &last = fusion.operands[0], &softmax = fusion.operands[1];
  for (int i : {0, 1})
    if (same_names(last.args[i].names, softmax.names))
      if (const auto found = read(last, i, softmax, fusion.operands[2])) return found;
  return {};
}

bool fits_attention(const Checked& program, const Node& node, Fusion& found) {
  if (!is_product(node)) return false;
  for (const Node& arg : node.args) {
    Fusion candidate{found.row};
    const Node* const softmax = written_for(program, arg, candidate.inside);
    if (!softmax || !is_plain_softmax(*softmax)) continue;
    const Node* const logits = written_for(program, softmax->args[0], candidate.inside);
    if (!logits || !is_product(*logits)) continue;
    candidate.operands = {node, *softmax, *logits};
    if (attention_in(candidate)) return found = candidate, true;
  }
  return false;
}

bool attends(Runner& runner, const Attention& all) {
  return runner.device().attends(runner.size(all.n));
}

std::optional<Value> run_attention(Runner& runner, const Node& node, const Fusion& fusion) {
  const Attention all = *attention_in(fusion);
  const Node& softmax = fusion.operands[1];
  if (!attends(runner, all)) return {};
  const Value Q = runner.node(*all.Q), K = runner.node(*all.K), V = runner.node(*all.V);
  const std::optional<Index> shown = shown_to_first(runner, softmax);
  const Value mask = shown ? Value{} : mask_of_softmax(runner, softmax);
  const bool batched = Q.batched;
  if (K.batched != batched || V.batched != batched || (mask.batched && !batched)) return {};
  const auto with = [&](const Value& v, int row, int column) {
    return v.tensor ? runner.aligned(v, all.with(row, column), batched).tensor : Tensor();
  };
  const Tensor y = attend(with(Q, all.n, all.c), with(K, all.m, all.c), with(V, all.m, all.e),
                          with(mask, all.n, all.m), shown.value_or(shows_all));
  return runner.aligned({y, all.with(all.n, all.e), batched}, node.names, batched);
}

// Unless a mask that is as large as the logits of one head is needed.
bool stores_nothing(Runner& runner, const Fusion& fusion) {
  return attends(runner, *attention_in(fusion)) && shown_to_first(runner, fusion.operands[1]);
}

}  // namespace

const FusionRow attention_row{fits_attention, run_attention, stores_nothing, true};

}  // namespace tete
