// Runs attention as one operation of core.
#include "nn/run/attention.hpp"

#include <algorithm>

#include "nn/language/builtins/dropout.hpp"
#include "nn/language/builtins/masked.hpp"
#include "nn/language/builtins/softmax.hpp"
#include "nn/language/sizes/operate.hpp"

namespace tete {

namespace {

// The largest number of heads that are mixed, 0 if none are.
Index most_mixed_heads(Runner& runner, const FusedAttention& found) {
  Index most = 0;
  for (int heads : {found.h_k, found.h, found.h_v})
    if (heads >= 0) most = std::max(most, runner.size(heads));
  return most;
}

// The value with merged heads split.
Value parted(Runner& runner, const Value& v, const Merge& merge) {
  if (!v.names.contains(merge.whole)) return v;
  const int batch = v.batched ? runner.batch_rank() : 0;
  Shape shape;
  for (int i = 0; i < batch; ++i) shape.push_back(v.tensor.size(i));
  for (int i = 0; i < v.names.size(); ++i)
    if (v.names[i] != merge.whole) shape.push_back(v.tensor.size(batch + i));
    else
      for (int part : merge.parts) shape.push_back(runner.size(part));
  return {reshape(v.tensor, shape), merge.parted(v.names), v.batched};
}

// a op b, with the names of both.
Value operated(Runner& runner, Operator op, const Value& a, const Value& b) {
  Names names = lacking(b.names, a.names);  // outside, so that rows of a stay dense
  for (int name : a.names) names.push_back(name);
  const auto [both, batched] = runner.operands({a, b}, names);
  return {operate(op, both[0], both[1]), names, batched};
}

// Q, and K, with the factors of the logits.
struct Scaled {
  Value Q, K;
};
Scaled scaled(Runner& runner, const FusedAttention& found) {
  Scaled made{runner.node(found.Q), runner.node(found.K)};
  for (const Beside& factor : found.factors) {
    const Value by = parted(runner, factor.names(runner.node(factor.by)), found.merge);
    Value& x = by.names.contains(found.m) ? made.K : made.Q;
    x = operated(runner, factor.op, x, by);
  }
  return made;
}

// The sum of all addends; no tensor if there are none.
Value bias_of(Runner& runner, const FusedAttention& found) {
  Value sum;
  for (const Beside& addend : found.addends) {
    Value v = found.bias ? runner.by_distance(addend.by, *found.bias) : runner.node(addend.by);
    v = parted(runner, addend.names(v), found.merge);
    if (addend.op == Operator::subtract) v.tensor = -v.tensor;
    sum = sum.tensor ? operated(runner, Operator::add, sum, v) : v;
  }
  return sum;
}

// V, with the noise of dropped weights.
Value values_of(Runner& runner, const FusedAttention& found, bool batched) {
  const Value V = runner.node(found.V);
  if (found.dropped < 0) return V;
  const int shared = found.weights.own[found.weights.names.find(found.n)];
  const Value noise = dropout_noise(runner, found.dropped, found.weights.own, shared, batched);
  if (!noise.tensor) return V;
  return operated(runner, Operator::multiply, V, parted(runner, found.weights(noise), found.merge));
}

// The value over these names, with sizes of 1 for those that it lacks, and for the batch: attend
// repeats it.
Tensor unrepeated(Runner& runner, const Value& v, const Names& names, bool batched) {
  if (!v.tensor) return {};
  Names own;
  for (int name : names)
    if (v.names.contains(name)) own.push_back(name);
  const Tensor x = runner.aligned(v, own, v.batched).tensor;
  Shape shape;
  int at = 0;
  const auto next = [&](bool has) { shape.push_back(has ? x.size(at++) : 1); };
  for (int i = 0; batched && i < runner.batch_rank(); ++i) next(v.batched);
  for (int name : names) next(own.contains(name));
  return reshape(x, shape);
}

// The number of positions that the masks show to the first query, if the softmax has no mask of its
// own but one by distance, beside which this holds; nothing where masks hide others.
std::optional<Index> shown_by_number(Runner& runner, const FusedAttention& found) {
  return found.mask ? runner.shown_to_first(found.softmax.args[0].names, found.n, found.m)
                    : shown_to_first(runner, found.softmax, found.n);
}

struct Masks {
  Value mask;
  Index shown = shows_all;
  bool by_distance = false;
};
Masks masks_of(Runner& runner, const FusedAttention& found) {
  const std::optional<Index> shown = shown_by_number(runner, found);
  if (!shown) return {parted(runner, mask_of_softmax(runner, found.softmax), found.merge)};
  if (!found.mask) return {{}, *shown};
  const Value own = runner.by_distance(*own_mask(found.softmax), *found.mask);
  return {parted(runner, own, found.merge), *shown, true};
}

// Attention stays f32 where products are of bfloat16: those would store logits and weights, and
// take as long.
std::optional<Value> run_attention(Runner& runner, const Node& node, const Fusion& fusion) {
  const FusedAttention& found = *fusion.attention;
  if (!runner.device().attends(runner.size(found.n), most_mixed_heads(runner, found))) return {};
  const auto matrix = [&](const std::optional<Node>& P) { return P ? runner.node(*P) : Value{}; };
  const Value P_l = matrix(found.P_l), P_w = matrix(found.P_w);
  if (P_l.batched || P_w.batched) return {};
  const auto [Q, K] = scaled(runner, found);
  const Masks masks = masks_of(runner, found);
  const Value& mask = masks.mask;
  const Value bias = bias_of(runner, found);
  const bool of_samples = Q.batched || K.batched || mask.batched || bias.batched;
  const Value V = values_of(runner, found, of_samples);
  const bool batched = of_samples || V.batched;
  const auto with = [&](const Value& v, const Names& names, bool samples) {
    return v.tensor ? runner.aligned(v, names, samples).tensor : Tensor();
  };
  const auto beside = [&](const Value& v, bool by_distance) {
    const Names logits = found.with(found.h, found.n, found.m);
    return unrepeated(runner, v, by_distance ? logits.without(found.n) : logits, batched);
  };
  const Tensor y = attend(with(Q, found.with(found.h_k, found.n, found.c), batched),
                          with(K, found.with(found.h_k, found.m, found.c), batched),
                          with(V, found.with(found.h_v, found.m, found.e), batched),
                          {.mask = beside(mask, masks.by_distance),
                           .shown = masks.shown,
                           .before = with(P_l, {found.h_k, found.h}, false),
                           .after = with(P_w, {found.h, found.h_v}, false),
                           .bias = beside(bias, found.bias.has_value()),
                           .mask_by_distance = masks.by_distance,
                           .bias_by_distance = found.bias.has_value()});
  const Names names = found.with(found.h_v, found.n, found.e);
  return runner.aligned({y, names, batched}, node.names, batched);
}

// Rows of what is added, as if each sample had its own, and one of the mask unless that is but a
// number; what is by distance has about as many numbers as one row, and counts as none, but that
// mixed heads need memory for all of its gradient. Too low if matrices of mixes differ by sample:
// these are not known before the run.
std::optional<double> stores(Runner& runner, const Fusion& fusion) {
  const FusedAttention& found = *fusion.attention;
  if (runner.dimension(found.n).role != Role::query ||
      !runner.device().attends(runner.rows_of_block(found.n), most_mixed_heads(runner, found)))
    return {};
  const bool is_number = shown_by_number(runner, found).has_value();
  double stored = is_number ? 0.0 : static_cast<double>(runner.size(found.m));
  for (const Beside& addend : found.addends) {
    const bool is_short = found.bias && !(found.bias->learned && found.mixes());
    if (is_short || !addend.names.names.contains(found.n)) continue;
    double row = 1;
    for (int name : addend.names.names)
      if (name != found.n) row *= static_cast<double>(runner.size(name));
    stored += row;
  }
  return stored;
}

// True if each sample and each head has its own rows of x: the kernel makes the gradient of shared
// ones for each, and sums it then.
bool has_own(Runner& runner, const FusedAttention& found, const Node& x, int heads) {
  Names all = found.others;
  if (heads >= 0) all.push_back(heads);
  const bool batched = x.kind != NodeKind::value || runner.at(x.index).batched;
  return includes(x.names, all) && (batched || runner.batch_rank() == 0);
}

// The matrices of the whole batch that threads take one at a time; mixed heads are shared among
// them.
double matrices(Runner& runner, const FusedAttention& found) {
  double count = 1;
  for (Index size : runner.shape_of(found.others, true)) count *= static_cast<double>(size);
  return count;
}

// The kernel takes no memory for pairs if blocks store nothing, but for the gradient of a bias that
// is not by distance. Blocks are faster with a mask by distance, as they are cut where it hides
// all, and where there are fewer matrices than pieces. run_attention() refuses mixes of each
// sample's own.
bool runs_whole(Runner& runner, const Fusion& fusion) {
  const FusedAttention& found = *fusion.attention;
  const auto differs = [&](const std::optional<Node>& P) { return P && runner.node(*P).batched; };
  const auto enough = static_cast<double>(runner.device().pieces().count);
  return stores(runner, fusion) == 0.0 && (found.addends.empty() || found.bias) && !found.mask &&
         !differs(found.P_l) && !differs(found.P_w) && has_own(runner, found, found.Q, found.h_k) &&
         has_own(runner, found, found.K, found.h_k) && has_own(runner, found, found.V, found.h_v) &&
         (found.mixes() || matrices(runner, found) >= enough);
}

}  // namespace

const FusionRow attention_row{fits_attention, run_attention, stores, runs_whole, true};

}  // namespace tete
