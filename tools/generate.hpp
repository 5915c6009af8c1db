// Generating: what a trained model writes, token by token.
#pragma once
#include <functional>
#include <string>

#include "nn/decode.hpp"
#include "nn/model.hpp"
#include "nn/transformer.hpp"
#include "train/tokenizer.hpp"

namespace tete {

struct Writing {
  double temperature = 0.8;  // 0: always the likeliest
  int64_t top_k = 0;         // draw among so many likeliest only; 0: all
  int64_t length = 500;      // characters (or bytes) to write
  uint64_t seed = 0;
};
// Called with each piece as soon as it is known.
using Show = std::function<void(const std::string&)>;

// Writes on from the prompt, without an end.
void continue_prompt(const LanguageModel& model, const Tensors& params, const Tokenizer& tokenizer,
                     const std::string& prompt, const Writing& writing, const Show& show);
void continue_prompt(const Model& model, Index context, const Tensors& params,
                     const Tokenizer& tokenizer, const std::string& prompt, const Writing& writing,
                     const Show& show);

// The answer of a model that learned a task, or of a decoder, up to where it ends it or its context
// is full.
void answer(const LanguageModel& model, const Tensors& params, const Tokenizer& tokenizer,
            const std::string& prompt, const Writing& writing, const Show& show);
void answer(const Model& model, Index context, const Tensors& params, const Tokenizer& tokenizer,
            const std::string& prompt, const Writing& writing, const Show& show);
void answer(const EncoderDecoder& model, const Tensors& params, const Tokenizer& tokenizer,
            const std::string& prompt, const Writing& writing, const Show& show);

}  // namespace tete
