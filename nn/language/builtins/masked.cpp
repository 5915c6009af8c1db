#include "nn/language/builtins/masked.hpp"

namespace tete {

void check_mask(Reading& reading, const Names& names, const Place& x, size_t key, Node& node) {
  if (const Node* mask = value_of(node, key))
    for (int name : mask->names)
      if (!names.contains(name))
        fail_at({mask->place, x}, "'", reading.in.own_name(name),
                "' is a dimension of the mask but not of what it masks");
  Checked& program = reading.in.draft.program;
  node.takes_call_mask = masked_pair(names, node.dim(), program.dimensions).query >= 0;
  program.takes_mask |= node.takes_call_mask;
  program.takes_padding |= program.dimensions[node.dim()].role != Role::none;
}

const Node* own_mask(const Node& call) {
  for (size_t key = 0; key < call.keys.size(); ++key)
    if (std::string_view(call.builtin->keys[key].name) == "mask") return value_of(call, key);
  return nullptr;
}

Value mask_of(Runner& runner, const Node& node, const Names& names, size_t key) {
  const Value mask = runner.mask_along(names, node.dim());
  const Node* const own = value_of(node, key);
  if (!own) return mask;
  return mask.tensor ? runner.both(mask, runner.node(*own), names) : runner.node(*own);
}

Masked masked_argument(Runner& runner, const Node& node, const Value& given, size_t key) {
  Value x = given;
  const Value mask = mask_of(runner, node, x.names, key);
  if (!mask.tensor) return {x, {}};
  if (mask.batched) x = runner.aligned(x, x.names, true);
  return {x, runner.aligned(mask, x.names, x.batched).tensor};
}

std::vector<Hidden> reduce_masked(FlowFinder& finder, const CallFlow& call, size_t key,
                                  FlowFinder::Neutral neutral, ValueFlow& out) {
  const Node& node = call.node;
  ValueFlow by_mask;
  finder.hide_by_mask(node.args[0].names, node.dim(), by_mask);
  for (const Hidden& hidden : call.keys[key].hidden)
    if (is_zero(hidden.number)) by_mask.hidden.push_back(hidden);
  out.hidden = by_mask.hidden;
  for (const Hidden& hidden : call.args[0].hidden)
    if (neutral(hidden.number)) out.hidden.push_back({hidden.query, hidden.memory, 0});
  finder.reduce(node, {node.dim()}, out, is_zero);
  return by_mask.hidden;
}

}  // namespace tete
