// Fusions: expressions that one kernel of core computes in one pass. Each row of the table has its
// meaning in the notation; what fits it is found by its operations, never by letters. A value that
// a fusion would skip is computed all the same if a hook asks for it.
//
//   f(a[…] + b[…])                     f elementwise, a or b a parameter; the sum is not stored
//   einsum(softmax(einsum(J, P)), R)   P and R small matrices, the second one if it is there: heads
//                                      that are mixed before and after a softmax
//   einsum(softmax(einsum(Q, K)), V)   attention, with or without such mixes, factors and biases of
//                                      its logits, and dropout (attention.hpp)
//   norm(x, dim=d) * g[d] + b[d]       layer_norm; rms_norm without b
//   S[…, d] = a[…] + b[…]              and its norm, as in the row before, in a later statement
#include "nn/run/fusion.hpp"

#include <algorithm>

#include "nn/language/builtins/normalize.hpp"
#include "nn/language/builtins/softmax.hpp"

namespace tete {

bool includes(const Names& all, const Names& names) {
  return std::all_of(names.begin(), names.end(), [&](int name) { return all.contains(name); });
}

Names lacking(const Names& names, const Names& known) {
  Names others;
  for (int name : names)
    if (!known.contains(name)) others.push_back(name);
  return others;
}

Names Merge::parted(const Names& names) const {
  Names all;
  for (int name : names) {
    if (name != whole) all.push_back(name);
    else
      for (int part : parts) all.push_back(part);
  }
  return all;
}

// The dimension that this reference splits; none if it picks or renames, or splits several.
static Merge split_in(const Node& node, const Names& dims) {
  Merge found;
  for (int i = 0; i < dims.size(); ++i) {
    const Node::RefAxis& axis = node.axes[i];
    if (axis.pick < 0 && axis.parts == Names{dims[i]}) continue;
    if (axis.pick >= 0 || axis.parts.size() < 2 || found.whole >= 0) return {};
    found = {dims[i], axis.parts};
  }
  return found;
}

const Node* written_for(const Checked& program, const Node& node, std::vector<int>& inside,
                        Merge* merge) {
  if (node.kind != NodeKind::value) return &node;
  if (!node.plain) {
    const Merge found = merge ? split_in(node, program.values[node.index].dims) : Merge{};
    if (found.whole < 0 || (merge->whole >= 0 && !(found == *merge))) return nullptr;
    *merge = found;
  }
  for (int at = node.index;; at = program.values[at].index) {
    const CheckedValue& v = program.values[at];
    inside.push_back(at);
    if (v.kind == ValueKind::same) continue;
    const bool is_whole = v.names == v.dims || (merge && v.names == merge->parted(v.dims));
    return is_whole && v.kind == ValueKind::statement && v.norm < 0 ? &v.right : nullptr;
  }
}

bool is_product(const Node& node) {
  const auto is_real = [](const Node& arg) { return arg.element == Element::real; };
  return is_product_of_two(node) && node.strips < 0 &&
         std::all_of(node.args.begin(), node.args.end(), is_real);
}

Mix mix_in(const Node& node) {
  if (!is_product(node)) return {};
  for (int i : {0, 1}) {
    const Node &matrix = node.args[i], &x = node.args[1 - i];
    if (matrix.names.size() != 2) continue;
    for (int k : {0, 1}) {
      const int from = matrix.names[k], to = matrix.names[1 - k];
      Names mixed = x.names.without(from);
      mixed.push_back(to);
      if (x.names.contains(from) && !x.names.contains(to) && !node.names.contains(from) &&
          includes(node.names, mixed) && node.names.size() == mixed.size())
        return {&x, &matrix, from, to};
    }
  }
  return {};
}

namespace {

bool is_operation(const Node& node, Operator op) {
  return node.kind == NodeKind::operation && node.op == op && node.args.size() == 2;
}

// The value itself, if this one is it under other names.
int origin_of(const Checked& program, int value) {
  while (program.values[value].kind == ValueKind::same) value = program.values[value].index;
  return value;
}

bool is_parameter(const Checked& program, const Node& node) {
  return node.kind == NodeKind::value &&
         program.values[origin_of(program, node.index)].kind == ValueKind::parameter;
}

// ---- f(a[…] + b[…]) -------------------------------------------------------------------------

bool is_biased(const Checked& program, const Node& sum) {
  const auto is_real_value = [](const Node& x) {
    return !x.constant && x.element == Element::real;
  };
  return is_operation(sum, Operator::add) && sum.fusion < 0 &&
         std::all_of(sum.args.begin(), sum.args.end(), is_real_value) &&
         std::any_of(sum.args.begin(), sum.args.end(),
                     [&](const Node& x) { return is_parameter(program, x); });
}

bool fits_function_of_sum(const Checked& program, const Node& node, Fusion& found) {
  if (node.constant || !node.builtin || node.builtin->unary == Unary::count) return false;
  const Node* const sum = written_for(program, node.args[0], found.inside);
  if (!sum || !is_biased(program, *sum)) return false;
  found.operands = {*sum};
  return true;
}

std::optional<Value> run_function_of_sum(Runner& runner, const Node& node, const Fusion& fusion) {
  const Node& sum = fusion.operands[0];
  const Names& names = fusion.inside.empty() ? sum.names : runner.names_of(fusion.inside.back());
  const auto [both, batched] =
      runner.operands({runner.unplaced(sum.args[0]), runner.unplaced(sum.args[1])}, names);
  return Value{unary_of_sum(node.builtin->unary, both[0], both[1]), node.args[0].names, batched};
}

// ---- einsum(softmax(einsum(J, P)), R) -------------------------------------------------------

// The operands: the softmax and the first mix.
bool fits_mixed_softmax(const Checked& program, const Node& node, Fusion& found) {
  const Mix last = mix_in(node);
  const Node* const softmax = last.x ? written_for(program, *last.x, found.inside) : &node;
  if (!softmax || !is_plain_softmax(*softmax) || softmax->dim() == last.from) return false;
  const Node* const logits = written_for(program, softmax->args[0], found.inside);
  const Mix first = logits ? mix_in(*logits) : Mix{};
  if (!first.x || softmax->dim() == first.to || (last.x && last.from != first.to)) return false;
  found.operands = {*softmax, *logits};
  return true;
}

std::optional<Value> run_mixed_softmax(Runner& runner, const Node& node, const Fusion& fusion) {
  const Node& softmax = fusion.operands[0];
  const Mix first = mix_in(fusion.operands[1]), last = mix_in(node);
  if (runner.rounds_products()) {
    const Index heads = std::max(
        {runner.size(first.from), runner.size(first.to), last.x ? runner.size(last.to) : 0});
    if (!runner.device().mixes_in_f32() || heads > small_side) return {};
  }
  const Value x = runner.node(*first.x), P = runner.node(*first.matrix),
              R = last.x ? runner.node(*last.matrix) : Value{},
              mask = mask_of_softmax(runner, softmax);
  if (P.batched || R.batched || (mask.batched && !x.batched)) return {};
  const auto rows_of = [&](int heads) {
    Names names = x.names.without(first.from).without(softmax.dim());
    names.push_back(heads), names.push_back(softmax.dim());
    return names;
  };
  const auto over = [&](const Value& v, const Names& names, bool batched) {
    return v.tensor ? runner.aligned(v, names, batched).tensor : Tensor();
  };
  const Tensor y =
      mixed_softmax(over(x, rows_of(first.from), x.batched), over(P, {first.from, first.to}, false),
                    over(mask, rows_of(first.to), x.batched), over(R, {last.from, last.to}, false));
  return runner.aligned({y, rows_of(last.x ? last.to : first.to), x.batched}, node.names,
                        x.batched);
}

// ---- norm(x, dim=d) * g[d] + b[d] -----------------------------------------------------------

bool is_vector(const Node& node, int dim) {
  return node.kind == NodeKind::value && node.plain && node.element == Element::real &&
         node.names == Names{dim};
}

// The operands of norm(x, dim=d) * g[d], in either order; none if `node` is something else.
std::vector<Node> scaled_norm_in(const Node& node) {
  if (!is_operation(node, Operator::multiply)) return {};
  for (int i : {0, 1})
    if (is_norm(node.args[i]) && is_vector(node.args[1 - i], node.args[i].dim()))
      return {node.args[i], node.args[1 - i]};
  return {};
}

bool fits_scaled_norm(const Checked&, const Node& node, Fusion& found) {
  found.operands = scaled_norm_in(node);
  if (!found.operands.empty()) return true;
  if (!is_operation(node, Operator::add)) return false;
  for (int i : {0, 1}) {
    found.operands = scaled_norm_in(node.args[i]);
    if (found.operands.empty()) continue;
    const Node& norm = found.operands[0];
    if (!takes_bias(norm) || !is_vector(node.args[1 - i], norm.dim())) return false;
    found.operands.push_back(node.args[1 - i]);
    return true;
  }
  return false;
}

// The scale and the bias, if there is one; none if they differ by sample.
Tensors vectors_of(Runner& runner, const Fusion& norm) {
  Tensors vectors;
  for (size_t i = 1; i < norm.operands.size(); ++i) {
    const Value v = runner.node(norm.operands[i]);
    if (v.batched) return {};
    vectors.push_back(v.tensor);
  }
  vectors.resize(2);
  return vectors;
}

std::optional<Value> run_scaled_norm(Runner& runner, const Node&, const Fusion& fusion) {
  const Node& norm = fusion.operands[0];
  const Tensors vectors = vectors_of(runner, fusion);
  if (vectors.empty()) return {};
  const Value x = runner.node(norm.args[0]);
  // A hook may have replaced what the norm was computed of.
  const auto [made, of] = runner.norm_ahead(fusion);
  const auto same = [](const Tensor& a, const Tensor& b) { return !b || a.same(b); };
  if (made.sum && made.sum.same(x.tensor) && same(of[0], vectors[0]) && same(of[1], vectors[1]))
    return Value{made.norm(), x.names, x.batched};
  return scaled_norm(runner, norm, x, vectors[0], vectors[1]);
}

constexpr FusionRow function_of_sum{fits_function_of_sum, run_function_of_sum},
    softmax_of_mix{fits_mixed_softmax, run_mixed_softmax, nullptr, nullptr, true},
    norm_with_scale{fits_scaled_norm, run_scaled_norm};

// ---- Finding --------------------------------------------------------------------------------

class FusionFinder {
 public:
  explicit FusionFinder(Checked& program)
      : program_(program), uses_(program.values.size()), in_tile_(program.values.size()) {
    for (const CheckedValue& v : program.values)
      for (int used : v.uses) ++uses_[used];
    ++uses_[program.result];
    for (int i : program.tile.inside) in_tile_[i] = true;
  }

  void find() {
    for (size_t i = 0; i < program_.values.size(); ++i)
      if (program_.values[i].kind == ValueKind::statement) {
        find(program_.values[i].right, static_cast<int>(i));
        find_sum_before(static_cast<int>(i));
      }
  }

 private:
  // Operands first, so that a fusion's copies of them are fused, too.
  void find(Node& node, int statement) {
    for (Node& arg : node.args) find(arg, statement);
    for (const FusionRow* row :
         {&norm_with_scale, &function_of_sum, &softmax_of_mix, &attention_row}) {
      Fusion found{row};
      if (!row->fits(program_, node, found) || !may_skip(found.inside, statement)) continue;
      node.fusion = static_cast<int>(program_.fusions.size());
      skip(found.inside, statement);
      program_.fusions.push_back(std::move(found));
      return;
    }
  }

  // Blocks of a tile are given values, and give them back, between statements; so are strips.
  bool may_skip(const std::vector<int>& inside, int reader) const {
    return std::all_of(inside.begin(), inside.end(), [&](int value) {
      return uses_[value] == 1 && in_tile_[value] == in_tile_[reader] &&
             program_.values[value].strips == program_.values[reader].strips;
    });
  }

  // `reader` reads the operands of a skipped statement in its place.
  void skip(const std::vector<int>& inside, int reader) {
    for (int value : inside) {
      CheckedValue& v = program_.values[value];
      v.fusion = static_cast<int>(program_.fusions.size());
      std::vector<int>& finished = program_.values[reader].finished;
      finished.insert(finished.end(), v.finished.begin(), v.finished.end());
      v.finished.clear();
    }
  }

  // If the statement is the scaled norm of a sum over its last dimension, the sum takes it along.
  void find_sum_before(int statement) {
    const int fusion = program_.values[statement].right.fusion;
    if (fusion < 0 || program_.fusions[fusion].row != &norm_with_scale) return;
    const std::vector<Node>& operands = program_.fusions[fusion].operands;
    const Node &norm = operands[0], &x = norm.args[0];
    if (x.kind != NodeKind::value || !x.plain || x.names.back() != norm.dim()) return;
    for (size_t i = 1; i < operands.size(); ++i)
      if (!is_parameter(program_, operands[i])) return;
    const int origin = origin_of(program_, x.index);
    CheckedValue& sum = program_.values[origin];
    const bool is_sum = sum.kind == ValueKind::statement && sum.names == sum.dims &&
                        sum.element == Element::real && sum.fusion < 0 && sum.norm < 0 &&
                        is_operation(sum.right, Operator::add) && sum.right.fusion < 0 &&
                        !sum.right.args[0].constant && !sum.right.args[1].constant;
    if (is_sum && !in_tile_[origin] && !in_tile_[statement]) sum.norm = fusion;
  }

  Checked& program_;
  std::vector<int> uses_;
  std::vector<bool> in_tile_;
};

}  // namespace

void find_fusions(Checked& program) { FusionFinder(program).find(); }

// ---- Running --------------------------------------------------------------------------------

bool Runner::runs(const Fusion& fusion) const {
  const auto any = [&](const auto& is) {
    return std::any_of(fusion.inside.begin(), fusion.inside.end(), is);
  };
  const auto watched = [&](int value) { return is_watched(value); };
  if (any([&](int value) { return is_replaced(value); })) return false;
  if (any(watched)) return fusion.row->rounds_otherwise;
  return !any([&](int value) { return has(value); });
}

std::optional<Value> Runner::in_one_pass(const Node& n) {
  const Fusion& fusion = program_.fusions[n.fusion];
  return runs(fusion) ? fusion.row->run(*this, n, fusion) : std::nullopt;
}

std::optional<double> Runner::stored_instead(int number) {
  const int at = checked(number).fusion;
  if (at < 0 || !runs(program_.fusions[at])) return {};
  const Fusion& fusion = program_.fusions[at];
  if (fusion.row->stores && number != fusion.inside.front()) return 0;  // it is counted once
  return fusion.row->stores ? fusion.row->stores(*this, fusion) : std::nullopt;
}

Value Runner::normed_sum(const CheckedValue& v) {
  const Fusion& norm = program_.fusions[v.norm];
  const Tensors vectors = vectors_of(*this, norm);
  if (vectors.empty()) return node(v.right);
  const auto [both, batched] = operands({node(v.right.args[0]), node(v.right.args[1])}, v.names);
  const SumWithNorm made =
      sum_with_norm(*this, norm.operands[0], both[0], both[1], vectors[0], vectors[1]);
  norms_ahead_[&norm] = {made, vectors};
  return {made.sum, v.names, batched};
}

NormAhead Runner::norm_ahead(const Fusion& norm) {
  const auto found = norms_ahead_.extract(&norm);
  return found ? found.mapped() : NormAhead{{}, Tensors(2)};
}

}  // namespace tete
