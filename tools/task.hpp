// Tasks: what `tete train` learns from, and the model that learns it.
//   text      a language model: what follows each token of a text
//   reverse   an encoder and a decoder: the reversal of a string, both padded
#pragma once
#include "tools/sites.hpp"
#include "train/step.hpp"

namespace tete {

struct Task {
  Tokenizer tokenizer;
  std::unique_ptr<const Data> data;
  ParamList params;
  std::function<LossSum(const Forward& forward, const Batch& batch)> loss;
  size_t activations = 0;  // bytes that one sample keeps for the gradient
};

struct LearnedText {
  std::vector<std::string> paths;  // none: the program's own sources
  Tokenizer::Unit unit = Tokenizer::Unit::characters;
  double held_out = 0.1;
};

// Whether a task's model has an encoder. Fails on a name that is none, with the nearest.
bool has_encoder(const std::string& task);

Task text_task(const ModelSettings& settings, const ChosenSites& sites, const LearnedText& options);
Task reverse_task(const ModelSettings& settings, const ChosenSites& sites);

}  // namespace tete
