// A model's config in the style of GPT-2 and its small descendants.
#pragma once
#include "nn/transformer.hpp"

namespace tete {

inline LanguageModelConfig gpt2_style(LanguageModelConfig config) {
  config.block.norm = "layer";
  config.block.feed_forward.activation = "gelu_erf";
  config.block.feed_forward.bias = true;
  config.positions = "learned";
  config.tied = true;
  config.scale_logits = false;
  config.init = "gpt2";
  return config;
}

}  // namespace tete
