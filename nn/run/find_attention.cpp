// Finds attention in a checked program by its names (attention.hpp).
#include "nn/language/builtins/masked.hpp"
#include "nn/language/builtins/softmax.hpp"
#include "nn/run/attention.hpp"

namespace tete {

namespace {

bool same_names(const Names& a, const Names& b) { return a.size() == b.size() && includes(a, b); }

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

}  // namespace

bool fits_attention(const Checked& program, const Node& node, Fusion& found) {
  if (!is_product(node)) return false;
  auto attention = AttentionFinder(program, found.inside).find(node);
  if (!attention) return false;
  find_distances(program, *attention, found.inside);
  found.attention = std::make_shared<const FusedAttention>(std::move(*attention));
  return true;
}

}  // namespace tete
