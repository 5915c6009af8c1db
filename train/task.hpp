// Teaching tasks: data that is made up, with answers that are known, so that what a model has
// learned is a number and what its heads do can be understood.
//
//   copy        tca>tca        after the mark, the same letters again
//   reverse     tca  act       an encoder reads the one, a decoder writes the other
//   sort        tca>act        the letters in the order of the alphabet
//   addition    12+7=19        decimal numbers
//   induction   qgxqgxqgx…     a random string, again and again
//   brackets    ([]{  })       what closes all that is open, the innermost first
//
// All but one are a language model's, which reads one line from left to right: then a picture has
// one axis of tokens, and a prompt is what stands left of the answer. Reversal is an encoder's and
// a decoder's, whose picture has the question on one side and the answer on the other.
#pragma once
#include <string>
#include <vector>

#include "train/data.hpp"

namespace tete {

// A question and its right answer. "\n" ends an answer that has an end.
struct Exercise {
  std::string prompt, answer;
  std::vector<bool> counted = {};  // which letters of the answer are asked for; empty: all
};

// One row of the table of tasks.
struct Task {
  const char* name;
  const char* what;     // for a list
  const char* letters;  // the alphabet, without "\n"
  const char* mark;     // what every prompt ends with, or ""
  bool encoder;         // an encoder reads the prompt and a decoder writes the answer
  Index least_context;  // tokens that the shortest exercise needs
  const char* sizes;    // TOML: those of a model that learns it, as options of `tete train`
  Index context;        // ... and the tokens that it sees
  int64_t steps;        // in which it learns it
  // An exercise that fits into the context, a function of the key alone.
  Exercise (*draw)(Key key, Index context);
  // True for each letter of a line with its answer that is asked for. nullptr: there is no line.
  std::vector<bool> (*asked)(const std::string& line);
  // The right answer to a prompt. nullptr: it stands in the prompt's own line.
  std::string (*answer)(const std::string& prompt) = nullptr;
};
const std::vector<Task>& tasks();
// TOML: how all of them are trained.
extern const char* const task_training;
// The row of a name, or nullptr. Nothing is called "text": that is no made-up task.
const Task* find_task(std::string_view name);

// Sample i is an exercise that is a function of (key, i). A tenth of all prompts, told by their
// checksum, is for validation only. Where there is an encoder, inputs are prompts, and targets
// answers; else inputs are prompts and answers in one line, targets what follows each token, and of
// these only the answer's are counted. Both are padded to `context` tokens.
class TaskData : public Data {
 public:
  // Fails on a context that has no room for an exercise.
  TaskData(const Task& task, Index context);

  // Letters in their order; before them "\n", which is the end of an answer and padding.
  static Tokenizer tokenizer(const Task& task);
  Batch batch(Key key, Index first, Index count) const override;
  Batch validation_batch(Key key, Index first, Index count) const override;
  const std::string& fingerprint() const override { return fingerprint_; }
  // The exercise in row `number` of validation_batch(key, 0, …).
  Exercise validation_exercise(Key key, Index number) const;

 private:
  Exercise exercise(bool held_out, Key key) const;
  Batch draw(bool held_out, Key key, Index first, Index count) const;

  const Task& task_;
  Tokenizer tokenizer_;
  Index context_;
  std::string fingerprint_;
};

}  // namespace tete
