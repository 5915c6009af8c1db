#include "nn/against/masks.hpp"

#include <algorithm>

#include "core/ops.hpp"

namespace tete {

namespace {

bool is_elementwise(const Node& node) {
  return node.kind == Node::Kind::operation ||
         (node.kind == Node::Kind::call && node.builtin->apply);
}

bool reads_elementwise(const Node& node, int value) {
  if (node.kind == Node::Kind::value) return node.index == value && node.plain;
  return is_elementwise(node) &&
         std::any_of(node.args.begin(), node.args.end(),
                     [&](const Node& arg) { return reads_elementwise(arg, value); });
}

void drop_mask(Node& node) {
  node.takes_call_mask = false;
  for (Node& arg : node.args) drop_mask(arg);
}

// The call's mask in x's shape: 1 where a query may attend.
Tensor visible_like(const Tensor& x, const Names& dims, Evaluation& run) {
  const Tensor seen = run.visible(dims);
  Axes batch;
  for (int i = 0; i < x.rank() - seen.rank(); ++i) batch.push_back(i);
  return batch.empty() ? seen : expand(seen, batch, x.shape());
}

// The mask in which query i sees memory j where j <= i + ahead.
Mask up_to(Index n, Index m, Index ahead) {
  std::vector<double> seen;
  for (Index i = 0; i < n * m; ++i) seen.push_back(i % m <= i / m + ahead);
  return {.visible = Tensor::of<double>({n, m}, std::span<const double>(seen))};
}

}  // namespace

bool takes_call_mask(const Node& node) {
  return node.takes_call_mask || std::any_of(node.args.begin(), node.args.end(), takes_call_mask);
}

Names masked_pair(const Checked& program) {
  Names pair;
  for (const CheckedValue& v : program.values)
    visit(v.right, [&](const Node& node) {
      if (!node.takes_call_mask || !pair.empty()) return;
      for (const Role role : {Role::query, Role::memory})
        for (int name : node.names)
          if (program.dimensions[name].role == role) pair.push_back(name);
    });
  return pair;
}

bool enters_masked_softmax(const Checked& program, int value) {
  bool found = false;
  for (const CheckedValue& v : program.values) {
    if (v.kind == CheckedValue::Kind::same && v.index == value)
      found |= enters_masked_softmax(program, static_cast<int>(&v - program.values.data()));
    visit(v.right, [&](const Node& node) {
      found |= node.takes_call_mask && reads_elementwise(node.args[0], value);
    });
  }
  return found;
}

std::vector<bool> masked_already(const Candidate& candidate, int value, const Tensor& x,
                                 Evaluation& run) {
  constexpr double very_negative = -9e3;  // -10000 in bfloat16 is -9984
  if (candidate.options.mask.hides_nothing() || !enters_masked_softmax(*candidate.program, value))
    return {};
  const std::vector<double> all = x.values(),
                            seen = visible_like(x, candidate.value(value).dims, run).values();
  std::vector<bool> hidden(all.size(), false);
  for (size_t i = 0; i < all.size(); ++i) {
    if (seen[i] != 0) continue;
    if (!(all[i] <= very_negative)) return {};
    hidden[i] = true;
  }
  return hidden;
}

Tensor filled_where_hidden(const Tensor& x, const Names& dims, Evaluation& run, double fill) {
  return select(visible_like(x, dims, run), x, Tensor::repeated(fill, x.shape(), x.dtype()));
}

std::vector<bool> blind_entries(const Checked& program, int value, const Shape& shape,
                                Evaluation& run) {
  const Names pair = masked_pair(program);
  const Names& dims = program.values[value].dims;
  if (pair.size() != 2 || !dims.contains(pair[0])) return {};
  const Tensor visible = run.visible(pair);
  const std::vector<double> sees = max(visible, Axes{visible.rank() - 1}).values();
  if (std::count(sees.begin(), sees.end(), 0.0) == 0) return {};
  const int axis = dims.find(pair[0]) + shape.size() - dims.size();
  const Index n = shape[axis], stride = row_major(shape)[axis], entries = element_count(shape);
  const auto samples = static_cast<Index>(sees.size()) / n;
  if (samples < 1 || entries % samples != 0) return {};
  std::vector<bool> blind;
  for (Index i = 0; i < entries; ++i)
    blind.push_back(sees[i / (entries / samples) * n + i / stride % n] == 0);
  return blind;
}

std::shared_ptr<const Checked> without_masks(const Checked& program) {
  auto altered = std::make_shared<Checked>(program);
  for (CheckedValue& v : altered->values) drop_mask(v.right);
  return altered;
}

std::vector<OtherMask> other_masks(const Checked& program, Evaluation& run, const Mask& mask) {
  const Names pair = masked_pair(program);
  if (pair.size() != 2) return {};
  const Index n = run.size(pair[0]), m = run.size(pair[1]);
  if (mask.hides_nothing())
    return {{"as if a causal mask were applied, where none is given", up_to(n, m, m - n)}};
  const Tensor visible = run.visible(pair);
  std::vector<OtherMask> others = {{"as if no mask were applied", Mask{}}};
  if (mask.causal) {
    others.push_back(
        {"as if the causal mask hid a query's own position, too (j < i)", up_to(n, m, m - n - 1)});
    others.push_back({"as if the causal mask let see one position ahead", up_to(n, m, m - n + 1)});
    if (m != n)
      others.push_back(
          {"as if query i saw the memories j <= i; the text's last query sees them all",
           up_to(n, m, 0)});
  }
  others.push_back(
      {"as if the mask were inverted: here 1 means 'may attend'", {.visible = 1.0 - visible}});
  if (n == m) {
    Axes order;
    for (int i = 0; i < visible.rank(); ++i) order.push_back(i);
    std::swap(order[visible.rank() - 1], order[visible.rank() - 2]);
    others.push_back(
        {"as if the mask's two axes were swapped", {.visible = permute(visible, order)}});
  }
  return others;
}

}  // namespace tete
