// Generating: what a trained model writes, token by token, and how it fills in blanks.
#pragma once
#include <functional>
#include <string>

#include "tools/model.hpp"
#include "train/masked.hpp"

namespace tete {

struct Writing {
  double temperature = 0.8;  // 0: always the likeliest
  int64_t top_k = 0;         // draw among so many likeliest only; 0: all
  int64_t length = 500;      // characters (or bytes) to write
  uint64_t seed = 0;         // of the first sample; each that follows has the next
  int64_t samples = 1;
};
// Called with each piece of a sample, counted from 0, as soon as it is known. What is written ends
// early where a stop is requested (train/stop.hpp).
using Show = std::function<void(size_t sample, const std::string& piece)>;

// A model that writes: no more of what it has read than its context is still seen.
struct Writer {
  const Model& model;
  Index context;
  const Tensors& params;
  const Tokenizer& tokenizer;
};

// Samples are read in one batch where the model can read position by position, what they have in
// common once. Each has the tokens that it has alone.

// Writes on from the prompt, without an end.
void continue_prompt(const Writer& writer, const std::string& prompt, const Writing& writing,
                     const Show& show);

// The answer of a model that learned a task, up to where it ends it or its context is full. An
// encoder reads the prompt, if there is one.
void answer(const Writer& writer, const std::string& prompt, const Writing& writing,
            const Show& show);

// The prompt with its blanks filled in, of the first sample: first the one whose token the model is
// surest about, then the others, given it. Fails (input) where the prompt has none. Where it ends
// early, blanks are left.
std::string fill_blanks(const Writer& writer, const std::string& prompt, const Writing& writing);

}  // namespace tete
