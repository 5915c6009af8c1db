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

// The operands and their names.
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
  Attention found;
  found.V = &last.args[1 - weights], found.m = softmax.dim();
  for (int i : {0, 1})
    if (logits.args[i].names.contains(found.m))
      found.K = &logits.args[i], found.Q = &logits.args[1 - i];
  if (!found.K || found.Q->names.contains(found.m)) return {};
  found.n = only_other(found.Q->names, found.K->names);
  found.c = only_other(found.Q->names, logits.names);
  found.e = only_other(found.V->names, logits.names);
  if (found.n < 0 || found.c < 0 || found.e < 0) return {};
  found.others = found.Q->names.without(found.n).without(found.c);
  const bool fit = same_names(found.K->names, found.with(found.m, found.c)) &&
                   same_names(logits.names, found.with(found.n, found.m)) &&
                   same_names(found.V->names, found.with(found.m, found.e)) &&
                   same_names(last.names, found.with(found.n, found.e));
  return fit ? std::optional(found) : std::nullopt;
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

// Attention stays f32 where products are of bfloat16: those would store logits and weights, and
// take as long.
std::optional<Value> run_attention(Runner& runner, const Node& node, const Fusion& fusion) {
  const Attention found = *attention_in(fusion);
  if (!runner.device().attends(runner.size(found.n))) return {};
  const Node& softmax = fusion.operands[1];
  const Value Q = runner.node(*found.Q), K = runner.node(*found.K), V = runner.node(*found.V);
  const std::optional<Index> shown = shown_to_first(runner, softmax, found.n);
  const Value mask = shown ? Value{} : mask_of_softmax(runner, softmax);
  const bool batched = Q.batched || K.batched || V.batched || mask.batched;
  const auto with = [&](const Value& v, int row, int column) {
    return v.tensor ? runner.aligned(v, found.with(row, column), batched).tensor : Tensor();
  };
  const Tensor y =
      attend(with(Q, found.n, found.c), with(K, found.m, found.c), with(V, found.m, found.e),
             with(mask, found.n, found.m), shown.value_or(shows_all));
  return runner.aligned({y, found.with(found.n, found.e), batched}, node.names, batched);
}

// A row of the mask, unless that is but a number.
std::optional<double> stores(Runner& runner, const Fusion& fusion) {
  const Attention found = *attention_in(fusion);
  if (!runner.device().attends(runner.rows_of_block(found.n))) return {};
  const bool is_number = shown_to_first(runner, fusion.operands[1], found.n).has_value();
  return is_number ? 0.0 : static_cast<double>(runner.size(found.m));
}

}  // namespace

const FusionRow attention_row{fits_attention, run_attention, stores, true};

}  // namespace tete
