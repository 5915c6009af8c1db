// Data: tokens of a text, their split, and batches drawn by key.
//
// Sample i of a run starts at an offset that is a function of (key, i) alone, so the cursor is one
// number, resuming is free, and neither batch size, shards nor ranks move a sample.
#pragma once
#include <string>
#include <vector>

#include "core/random.hpp"
#include "core/tensor.hpp"
#include "train/tokenizer.hpp"

namespace tete {

// What one call of a model is trained on: target[b, n] follows input[b, n].
struct Batch {
  Tensor input, target;    // i64[b, n]
  Index first_sample = 0;  // global number of the first sample
};

// The files' contents, one after the other. Fails in one sentence on a file that is missing, a
// folder, empty or binary, and on one that is not UTF-8 if it is to be read as characters.
std::string read_texts(const std::vector<std::string>& paths, Tokenizer::Unit unit);

class Data {
 public:
  // The first (1 - held_out) of the tokens are trained on, the rest are for validation. Fails where
  // either is too short for one sample of `context` tokens.
  Data(std::vector<int32_t> tokens, Index context, double held_out = 0.1);

  Index context() const { return context_; }
  Index train_tokens() const { return cut_; }
  Index validation_tokens() const { return static_cast<Index>(tokens_.size()) - cut_; }
  // Samples first … first + count - 1 of the run that `key` names.
  Batch batch(Key key, Index first, Index count) const;
  // The same, of the part that is held out.
  Batch validation_batch(Key key, Index first, Index count) const;
  // Of the tokens and the split, to tell whether a resumed run sees the same data.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  Batch draw(Index begin, Index end, Key key, Index first, Index count) const;

  std::vector<int32_t> tokens_;
  Index context_, cut_;
  std::string fingerprint_;
};

}  // namespace tete
