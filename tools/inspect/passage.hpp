// Passage: one text as a model reads it, and what it says follows.
#pragma once
#include "tools/inspect/report.hpp"
#include "tools/trained.hpp"

namespace tete {

class Passage {
 public:
  // A language model reads `text`, as does an encoder, which fills in its blanks. Where there is an
  // encoder that reads it, and the decoder reads `answer`, with an end before it and without its
  // last; if none is given what the model itself answers, the likeliest token each time. Fails
  // (input) where the model cannot read it; the error begins with where the text is from.
  Passage(const Trained& trained, const std::string& text,
          const std::optional<std::vector<int64_t>>& answer, const std::string& origin = "--text");

  const std::vector<TokenSequence>& sequences() const { return sequences_; }
  // The sequence that is predicted: each of its tokens is followed by one.
  int predicted() const { return static_cast<int>(sequences_.size()) - 1; }
  // By position of it: the token that does follow, -1 where it is not known; of a task's line -1
  // also where it is not asked for.
  const std::vector<int64_t>& next() const { return next_; }

  // The logits of what follows each position, [n, v].
  Tensor logits(const Forward& forward) const;
  // The same if X[1, n, d_X] were what the last block made, the last state of a text's stream.
  Tensor logits_of(const Forward& forward, const Tensor& X) const;
  // -log p of what does follow: the mean over positions where it is known, in nats; NaN if nowhere.
  double loss(const Tensor& logits) const;
  const Tensors& params() const { return trained_.params; }

 private:
  void answer(const std::optional<std::vector<int64_t>>& given);
  ModelInputs inputs() const;

  const Trained& trained_;
  std::vector<TokenSequence> sequences_;
  std::vector<int64_t> next_;
};

// True if no element is NaN or infinite.
bool is_finite(const Tensor& x);

// The tokens of a given answer, then end_token unless they fill the context. Fails (input) on a
// model without an encoder, and on an answer that is longer than the context.
std::vector<int64_t> answer_tokens(const Trained& trained, const std::string& answer);

}  // namespace tete
