#include "attention/sites.hpp"

#include <algorithm>

namespace tete {

bool is_causal(const Checked& program) { return program.takes_mask && program.leak.empty(); }

bool attends_across(const Checked& program) {
  const std::vector<std::string>& inputs = program.input_names;
  return !program.self_only && std::find(inputs.begin(), inputs.end(), "M") != inputs.end();
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
