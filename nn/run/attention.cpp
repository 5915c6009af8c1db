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
#include <algorithm>

#include "nn/language/builtins/dropout.hpp"
#include "nn/language/builtins/softmax.hpp"
#include "nn/language/sizes/operate.hpp"
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

namespace {

bool same_names(const Names& a, const Names& b) { return a.size() == b.size() && includes(a, b); }

// The names of the first that the second lacks.
Names lacking(const Names& names, const Names& known) {
  Names others;
  for (int name : names)
    if (!known.contains(name)) others.push_back(name);
  return others;
}
int only_one(const Names& names) { return names.size() == 1 ? names[0] : -1; }

// True if the expression has the same value whichever statement computes it.
bool is_movable(const Node& node) {
  bool movable = true;
  visit(node, [&](const Node& n) {
    movable = movable && n.strips < 0 && !calls(n, "dropout") &&
              !(n.builtin && n.builtin->reads_earlier_rows);
  });
  return movable;
}

// ---- Finding --------------------------------------------------------------------------------

// Reads an expression from einsum(U, V) up to the products of queries and keys.
class AttentionFinder {
 public:
  using Found = std::optional<FusedAttention>;

  AttentionFinder(const Checked& program, std::vector<int>& inside)
      : program_(program), inside_(inside) {}

  Found find(const Node& last) {
    for (int i : {0, 1})
      if (Found found = weights(last, i)) return found;
    return {};
  }

 private:
  // A search down one way: what it found, and its names where it is.
  struct Way {
    FusedAttention found;
    Renamed names;
  };

  const Node* written(const Node& node, Way& way) const {
    const size_t known = inside_.size();
    const Node* const right = written_for(program_, node, inside_, &way.found.merge);
    for (size_t i = known; i < inside_.size(); ++i) {
      const CheckedValue& v = program_.values[inside_[i]];
      if (v.kind == ValueKind::same) way.names = {program_.values[v.index].dims, way.names(v.dims)};
    }
    return right;
  }

  // U is argument number `i` of the last einsum.
  Found weights(const Node& last, int i) {
    inside_.clear();
    Way way;
    FusedAttention& found = way.found;
    found.V = last.args[1 - i];
    found.e = only_one(lacking(found.V.names, last.args[i].names));
    const Node* node = written(last.args[i], way);
    if (node && is_dropped(*node)) {
      found.dropped = inside_.back();
      found.weights = {node->args[0].names, way.names(node->args[0].names)};
      found.n = way.names(node->dim());
      node = written(node->args[0], way);
    }
    if (!node) return {};
    if (const Mix mix = mix_in(*node); mix.x) {
      found.P_w = *mix.matrix, found.h_k = found.h = mix.from, found.h_v = mix.to;
      node = written(*mix.x, way);
    }
    if (!node || !is_plain_softmax(*node)) return {};
    found.softmax = *node, found.m = node->dim();
    Found whole = logits(node->args[0], way);
    return whole && fits(*whole, last, i) ? whole : std::nullopt;
  }

  // Weights with one noise for all rows, by a statement of its own: its name is the noise's key.
  bool is_dropped(const Node& node) const {
    return calls(node, "dropout") && node.dim() >= 0 && !inside_.empty() &&
           &node == &program_.values[inside_.back()].right &&
           node.args[0].kind == NodeKind::value && node.args[0].plain;
  }

  Found logits(const Node& arg, Way way) {
    const size_t known = inside_.size();
    const Node* const node = written(arg, way);
    Found made;
    if (node && is_product(*node)) made = products(*node, way.found);
    if (node && !made) {
      if (const Mix mix = mix_in(*node); mix.x) made = unmixed(mix, way);
      else if (node->kind == NodeKind::operation && node->args.size() == 2) made = part(*node, way);
    }
    if (!made) inside_.resize(known);
    return made;
  }

  Found unmixed(const Mix& mix, Way way) {
    FusedAttention& found = way.found;
    if (found.P_l || (found.P_w && found.h != mix.to)) return {};
    for (const Beside& factor : found.factors)
      if (factor.names.names.contains(mix.to)) return {};
    found.P_l = *mix.matrix, found.h_k = mix.from, found.h = mix.to;
    if (!found.P_w) found.h_v = mix.to;
    return logits(*mix.x, way);
  }

  // One operand of an operation is the logits, or leads to them; the other one is beside.
  Found part(const Node& node, const Way& way) {
    const bool adds = node.op == Operator::add || node.op == Operator::subtract,
               multiplies = node.op == Operator::multiply || node.op == Operator::divide,
               turns = node.op == Operator::add || node.op == Operator::multiply;
    if (!multiplies && !(adds && way.found.factors.empty() && !way.found.P_l)) return {};
    for (int i : {0, 1}) {
      const Node& by = node.args[1 - i];
      if ((i == 1 && !turns) || !is_movable(by) || node.args[i].constant) continue;
      Way without = way;
      if (adds) without.found.addends.push_back(beside(node.op, by, way));
      else add_factors(node.op, by, without);
      if (Found made = logits(node.args[i], without)) return made;
    }
    return {};
  }

  static Beside beside(Operator op, const Node& by, const Way& way) {
    return {op, by, {by.names, way.names(by.names)}};
  }
  // A product is two factors, so that each may go to its own side, Q or K.
  static void add_factors(Operator op, const Node& by, Way& way) {
    const bool divides = by.op == Operator::divide;
    if (by.constant || by.kind != NodeKind::operation || by.args.size() != 2 ||
        !(by.op == Operator::multiply || divides))
      return way.found.factors.push_back(beside(op, by, way));
    const Operator inverse = op == Operator::divide ? Operator::multiply : Operator::divide;
    add_factors(op, by.args[0], way);
    add_factors(divides ? inverse : op, by.args[1], way);
  }

  Found products(const Node& node, FusedAttention found) const {
    const Node *K = nullptr, *Q = nullptr;
    for (int i : {0, 1})
      if (node.args[i].names.contains(found.m)) K = &node.args[i], Q = &node.args[1 - i];
    if (!K || Q->names.contains(found.m) || !is_movable(*Q) || !is_movable(*K)) return {};
    found.Q = *Q, found.K = *K;
    found.c = only_one(lacking(Q->names, node.names));
    if (found.c < 0) return {};
    Names rows = lacking(Q->names, K->names);
    if (found.h_k >= 0) rows = rows.without(found.h_k);
    if (found.n < 0) found.n = rows_among(rows);
    found.others = Q->names.without(found.c).without(found.n);
    if (found.h_k >= 0) found.others = found.others.without(found.h_k);
    const bool fit = rows.contains(found.n) && K->names.contains(found.c) &&
                     same_names(Q->names, found.with(found.h_k, found.n, found.c)) &&
                     includes(found.with(found.h_k, found.m, found.c), K->names) &&
                     same_names(node.names, found.with(found.h_k, found.n, found.m));
    return fit ? Found(found) : std::nullopt;
  }

  // Heads that read one memory are rows as queries are; these come first if the text tells them.
  int rows_among(const Names& names) const {
    for (int name : names)
      if (program_.dimensions[name].role == Role::query) return name;
    return names.empty() ? -1 : names[0];
  }

  // True if the names of all that lies between fit; no factor has those of rows and memory.
  static bool fits(const FusedAttention& found, const Node& last, int i) {
    const Names& weights = last.args[i].names;
    const Merge& merge = found.merge;
    const bool splits = merge.whole >= 0;
    if (found.e < 0 || (splits && (found.mixes() || weights.contains(merge.whole)))) return false;
    for (const Beside& factor : found.factors) {
      const Names names = merge.parted(factor.names.names);
      if (names.contains(found.n) && names.contains(found.m)) return false;
    }
    for (const Beside& addend : found.addends)
      if (!includes(found.with(found.h, found.n, found.m), merge.parted(addend.names.names)))
        return false;
    return found.V.names.contains(found.m) &&
           same_names(merge.parted(found.softmax.names), found.with(found.h, found.n, found.m)) &&
           includes(found.with(found.h_v, found.m, found.e), found.V.names) &&
           same_names(weights, found.with(found.h_v, found.n, found.m)) &&
           same_names(last.names, found.with(found.h_v, found.n, found.e));
  }

  const Checked& program_;
  std::vector<int>& inside_;
};

// Finds out if the bias and the softmax's own mask are by distance.
void find_distances(const Checked& program, FusedAttention& found, std::vector<int>& inside) {
  const auto look = [&](const Node& node, const Renamed& names) {
    const auto own = [&](int name) {
      const int at = names.names.find(name);
      return at < 0 ? -1 : names.own[at];
    };
    return find_by_distance(program, node, own(found.n), own(found.m), inside);
  };
  if (found.addends.size() == 1) found.bias = look(found.addends[0].by, found.addends[0].names);
  if (const Node* const mask = own_mask(found.softmax))
    found.mask = look(*mask, {mask->names, mask->names});
}

bool fits_attention(const Checked& program, const Node& node, Fusion& found) {
  if (!is_product(node)) return false;
  auto attention = AttentionFinder(program, found.inside).find(node);
  if (!attention) return false;
  find_distances(program, *attention, found.inside);
  found.attention = std::make_shared<const FusedAttention>(std::move(*attention));
  return true;
}

// ---- Running --------------------------------------------------------------------------------

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
  if (!runner.device().attends(runner.rows_of_block(found.n), most_mixed_heads(runner, found)))
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

}  // namespace

const FusionRow attention_row{fits_attention, run_attention, stores, true};

}  // namespace tete
