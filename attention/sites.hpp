// Sites: which variant attends where in a model, and whether its text may.
#pragma once
#include "attention/attention.hpp"
#include "nn/transformer.hpp"

namespace tete {

struct ChosenAttention {
  std::shared_ptr<const Checked> program;
  AttentionSizes sizes;
};
// One for each layer of a stack; `encoder` and `cross` are empty where there is no encoder.
struct ChosenSites {
  std::vector<ChosenAttention> encoder = {}, decoder = {}, cross = {};
};

// True if a causal mask keeps the future hidden, as far as the text shows; running it under such a
// mask refuses the rest.
bool is_causal(const Checked& program);
// True if it can attend to another sequence than X.
bool attends_across(const Checked& program);

// A layer's attention is the choice with its number, under a causal mask or not. Position by
// position, the memory of causal attention grows, and any other is complete.
AttentionFactory attention_of(std::vector<ChosenAttention> choices, bool causal);
StackAttention attention_of(const ChosenSites& sites);

}  // namespace tete
