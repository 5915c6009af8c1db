#include "tools/inspect/result_by_heads.hpp"

#include <algorithm>

#include "core/ops.hpp"

namespace tete {

namespace {

// The einsum of plain values that sums a value over its heads, as the result's first term; -1 if
// there is none.
int summing_einsum(const Checked& program, int contribution, int heads) {
  for (size_t i = 0; i < program.values.size(); ++i) {
    const Node& right = program.values[i].right;
    const Names& left = program.values[i].names;
    if (!calls(right, "einsum") || std::find(left.begin(), left.end(), heads) != left.end())
      continue;
    const auto is_contribution = [&](const Node& arg) { return arg.index == contribution; };
    if (std::all_of(right.args.begin(), right.args.end(), is_plain_value) &&
        std::any_of(right.args.begin(), right.args.end(), is_contribution) &&
        is_plus_something(program, program.result, static_cast<int>(i)))
      return static_cast<int>(i);
  }
  return -1;
}

// "... d3 d7" for a tensor of these dimensions, with or without a batch.
std::string letters(const Names& names, bool batched) {
  std::string all = batched ? " ..." : "";
  for (int name : names) all += text(" d", name);
  return all;
}

}  // namespace

Tensor result_by_heads(const SitePlace& place, const Activations& seen) {
  const Checked& program = *place.program;
  const Roles roles = roles_of(program);
  if (roles.contribution < 0 || roles.contribution_heads < 0) return {};
  const int heads = program.values[roles.contribution].dims[roles.contribution_heads];
  const int summing = summing_einsum(program, roles.contribution, heads);
  if (summing < 0) return {};

  Tensors operands;
  std::string pattern;
  bool any_batched = false;
  for (const Node& arg : program.values[summing].right.args) {
    const CheckedValue& v = program.values[arg.index];
    const auto at = seen.find(path_of(place, arg.index));
    if (at == seen.end()) return {};
    operands.push_back(at->second);
    const bool batched = operands.back().rank() > v.dims.size();
    any_batched |= batched;
    pattern += (pattern.empty() ? "" : ",") + letters(v.dims, batched);
  }
  Names left = program.values[summing].names;
  left.push_back(heads);
  return einsum(Pattern::parse(pattern + " ->" + letters(left, any_batched)), operands);
}

}  // namespace tete
