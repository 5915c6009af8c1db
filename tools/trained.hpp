// A trained model: what a checkpoint holds, ready to be called.
#pragma once
#include "tools/model.hpp"
#include "train/checkpoint.hpp"
#include "train/masked.hpp"
#include "train/task.hpp"
#include "train/tokenizer.hpp"

namespace tete {

struct Trained {
  std::string path;  // of the checkpoint
  int64_t step = 0;
  Tokenizer tokenizer;
  ModelSettings settings;
  Model model;
  Tensors params;
  const Task* task = nullptr;  // that it learned, if it is one of the table's

  Index context() const { return settings.context; }
  // True if it fills in the blanks of a prompt.
  bool fills() const { return model.kind() == ModelKind::encoder; }
  // True if it needs a prompt, rather than going on from one.
  bool answers() const { return task || model.kind() != ModelKind::language_model; }
  const ParamList& declared() const { return model.params(); }
};

// The checkpoint itself, or the newest of a run's folder that is whole; a warning is written for
// each newer one that is not. The parameters are on the device `on`. Fails (input) where there is
// none, or none of `tete train`.
Trained read_trained(const std::string& where, Backend& on = cpu());

}  // namespace tete
