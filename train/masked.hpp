// Masked tokens, as BERT learns from: an encoder reads a text in which some tokens are hidden, and
// predicts these. Of each sample 15% of the positions are asked for, one at least: eight of ten
// times the model reads the mask there, one time any token, one time the token itself (Devlin et
// al. 2019, section 3.1).
#pragma once
#include "train/data.hpp"

namespace tete {

// The name of this objective, among those of tasks.
inline constexpr const char* masked_task = "mlm";
// TOML: how it is trained. In the same steps adafactor with the rate of a text learns little more
// than how frequent letters are.
inline constexpr const char* masked_training =
    "optimizer = \"adam\"\nschedule = \"cosine\"\nlearning-rate = 0.001\nlast-rate = 0.0001\n"
    "warmup = 100";

// How many kinds of tokens a model reads: those of the tokenizer and, after them, a mask.
int64_t vocabulary_of(const std::string& task, const Tokenizer& tokenizer);

// Stands for a token of a prompt that an encoder is to fill in.
inline constexpr char blank = '_';
// The tokens of a prompt, in which each blank is the mask, tokenizer.size().
std::vector<int32_t> encode_with_blanks(const Tokenizer& tokenizer, std::string_view prompt);
// The other way round.
std::string decode_with_blanks(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens);

// Sample i is a window of a text; key and i say where it starts and what of it is asked for.
// Targets are -1 elsewhere.
class MaskedData : public Data {
 public:
  // `mask` is the token that hides; those of the text are below it.
  MaskedData(TextData text, int64_t mask);

  Batch batch(Key key, Index first, Index count) const override;
  Batch validation_batch(Key key, Index first, Index count) const override;
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  Batch masked(const Batch& windows, Key key) const;

  TextData text_;
  int64_t mask_;
  std::string fingerprint_;
};

}  // namespace tete
