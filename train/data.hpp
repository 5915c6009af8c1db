// Data: samples that are drawn by key, and those of a text.
//
// Sample i of a run is a function of (key, i) alone, so the cursor is one number, resuming is free,
// and neither batch size, shards nor ranks move a sample.
#pragma once
#include <string>
#include <vector>

#include "core/random.hpp"
#include "core/tensor.hpp"
#include "train/tokens.hpp"

namespace tete {

// The samples of one call of a model. A language model's target[b, n] follows input[b, n]; where
// there is an encoder, input[b, m] is the source and target[b, n] what becomes of it.
struct Batch {
  Tensor input, target;    // i64; a target below 0 is padding
  Index first_sample = 0;  // global number of the first sample
  Tensor lengths = {};     // i64[b], where inputs are padded: what is there of each
};

class Data {
 public:
  virtual ~Data() = default;
  // Samples first … first + count - 1 of the run that `key` names.
  virtual Batch batch(Key key, Index first, Index count) const = 0;
  // The same, of what is held out.
  virtual Batch validation_batch(Key key, Index first, Index count) const = 0;
  // A checksum of all samples and their split, to tell whether a resumed run sees the same data.
  virtual const std::string& fingerprint() const = 0;
};

// Sample i is a window of a text; key and i say where it starts.
class TextData : public Data {
 public:
  // The first (1 - held_out) of the tokens are trained on, the rest are for validation. Fails where
  // either is too short for one sample of `context` tokens.
  TextData(Tokens tokens, Index context, double held_out = 0.1);

  Index context() const { return context_; }
  Index train_tokens() const { return cut_; }
  Index validation_tokens() const { return tokens_.size() - cut_; }
  Batch batch(Key key, Index first, Index count) const override;
  Batch validation_batch(Key key, Index first, Index count) const override;
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  Batch draw(Index begin, Index end, Key key, Index first, Index count) const;

  Tokens tokens_;
  Index context_, cut_;
  std::string fingerprint_;
};

}  // namespace tete
