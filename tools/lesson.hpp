// A lesson: the data that `tete train` learns from, and the model that learns it. A text has a
// language model, a text with masked tokens an encoder, and a task the model that its row names.
#pragma once
#include "tools/model.hpp"
#include "tools/options.hpp"
#include "train/loop.hpp"
#include "train/task.hpp"

namespace tete {

struct Lesson {
  Tokenizer tokenizer;
  std::shared_ptr<const Data> data;
  std::shared_ptr<const Model> model;
  std::function<LossSum(const Forward& forward, const Batch& batch)> loss;
  // The text that the model writes now, or its answers to prompts that it never saw.
  std::function<std::vector<WrittenText>(const Tensors& values)> write;
  size_t activations = 0;  // bytes that one sample keeps for the gradient
};

struct LearnedText {
  std::vector<std::string> paths;  // none: the program's own sources
  Tokenizer::Unit unit = Tokenizer::Unit::characters;
  double held_out = 0.1;
  bool masked = false;  // an encoder fills in masked tokens
};

// They fail (input) where the settings' model is of another kind than the lesson's.
Lesson text_lesson(const ModelSettings& settings, const LearnedText& options);
Lesson task_lesson(const Task& task, const ModelSettings& settings);

}  // namespace tete
