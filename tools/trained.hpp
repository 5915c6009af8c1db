// A trained model: what a checkpoint holds, ready to be called.
#pragma once
#include <variant>

#include "tools/model.hpp"
#include "train/checkpoint.hpp"
#include "train/task.hpp"
#include "train/tokenizer.hpp"

namespace tete {

struct Trained {
  std::string path;  // of the checkpoint
  int64_t step = 0;
  Tokenizer tokenizer;
  ModelSettings settings;
  ChosenSites sites;
  std::variant<LanguageModel, EncoderDecoder, Model> model;
  Tensors params;
  const Task* task = nullptr;  // that it learned, if it is one of the table's

  Index context() const { return settings.context; }
  // True if it answers a prompt, rather than going on from it.
  bool answers() const { return task || std::holds_alternative<EncoderDecoder>(model); }
  const ParamList& declared() const {
    return std::visit(
        [](const auto& m) -> const auto& { return m.params(); }, model);
  }
};

// The checkpoint itself, or the newest of a run's folder that is whole; a warning is written for
// each newer one that is not. The parameters are on the device `on`. Fails (input) where there is
// none, or none of `tete train`.
Trained read_trained(const std::string& where, Backend& on = cpu());

}  // namespace tete
