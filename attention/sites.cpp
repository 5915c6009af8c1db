#include "attention/sites.hpp"

#include <algorithm>

namespace tete {

bool is_causal(const Checked& program) { return program.takes_mask && program.leak.empty(); }

bool attends_across(const Checked& program) {
  const std::vector<std::string>& inputs = program.input_names;
  return !program.self_only && std::find(inputs.begin(), inputs.end(), "M") != inputs.end();
}

std::string holder_of_scale(const Checked& program) {
  const auto name_of = [&](int dim) { return program.dimensions[dim].short_name(); };
  std::string width;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (const CheckedValue& input = program.values[program.inputs[i]];
        program.input_names[i] == "X" && !input.dims.empty())
      width = name_of(input.dims.back());
  for (const CheckedParameter& p : program.parameters) {
    bool has_width = false, has_d_k = false;
    for (const Node& arg : p.args)
      visit(arg, [&](const Node& node) {
        if (node.kind != Node::Kind::size) return;
        has_width |= name_of(node.index) == width;
        has_d_k |= name_of(node.index) == "d_k";
      });
    if (has_width && has_d_k) return p.name;
  }
  return "";
}

AttentionFactory attention_of(std::vector<ChosenAttention> choices, bool causal) {
  return [choices = std::move(choices), causal](const Scope& scope, int layer) -> AttentionSite {
    const ChosenAttention& chosen = choices.at(static_cast<size_t>(layer));
    const Attention attention(scope, chosen.program, chosen.sizes);
    return [attention, causal, path = scope.path](const Forward& forward, const Tensor& X,
                                                  const Tensor& M, const Tensor& lengths) {
      if (!forward.decoding)
        return attention(forward, path, X, M, {.causal = causal, .lengths = lengths});
      Decoder& decoder = forward.decoding->at(
          path, [&] { return attention.decoder(causal ? Growth::grows : Growth::complete); });
      return attention.next(decoder, forward, path, X, M, {.lengths = lengths});
    };
  };
}

StackAttention attention_of(const ChosenSites& sites) {
  return {attention_of(sites.encoder, false), attention_of(sites.decoder, true),
          attention_of(sites.cross, false)};
}

}  // namespace tete
