// Samples: texts that begin alike and are written side by side, token by token.
#pragma once
#include <map>
#include <span>
#include <vector>

#include "tools/generate.hpp"

namespace tete {

using Text = std::vector<int32_t>;                // tokens
using Logits = std::vector<std::vector<double>>;  // of texts

// The next token: one drawn from softmax(logits / temperature) over the top_k likeliest (ties:
// the smaller token). Temperature 0: the likeliest.
int32_t draw(const std::vector<double>& logits, const Writing& o, double chance);
// True if no rounding of the logits, as a batch has it beside a text alone, makes draw() choose
// another token. It does not see a row that rounding sends to another expert.
bool is_sure(const std::vector<double>& logits, const Writing& o, double chance, int32_t token);

// [texts, count]: the last tokens of each text.
Tensor as_tensor(std::span<const Text> texts, Index count);

// Logits of what follows texts of one length, token by token. As long as they fit into the context,
// each token is read once: what they begin with together, then one of each in a batch. After that,
// and where an attention needs its whole sequence anew, all of the context is read for each token.
class Reader {
 public:
  // `source`, of one sample, is what an encoder reads.
  explicit Reader(const Writer& writer, const ModelInputs& source = {})
      : writer_(writer), forward_{.params = writer.params}, source_(source), inputs_(source) {}

  // The texts are equal at the first call.
  Logits after(const std::vector<Text>& texts);
  bool keeps() const { return keeps_; }          // True if it goes on from what it has read.
  Index length() const { return past_.length; }  // tokens of each that it has read and kept

 private:
  Logits beginning(const std::vector<Text>& texts);
  Logits next(std::span<const Text> texts);
  Logits anew(std::span<const Text> texts);
  void repeat_source(Index samples);

  const Writer& writer_;
  Forward forward_;
  ModelInputs source_, inputs_;
  Decoding past_;
  bool keeps_ = true;
};

class Samples {
 public:
  Samples(const Writer& writer, const Writing& o, const Text& beginning,
          const ModelInputs& source = {})
      : writer_(writer),
        o_(o),
        source_(source),
        begun_(std::ssize(beginning)),
        texts_(static_cast<size_t>(o.samples), beginning),
        ended_(texts_.size()),
        reader_(writer, source) {}

  size_t count() const { return texts_.size(); }
  Index length() const { return std::ssize(texts_[0]); }  // of each, in tokens
  int32_t newest(size_t i) const { return texts_[i].back(); }
  void end(size_t i) { ended_[i] = true; }
  bool has_ended(size_t i) const { return ended_[i]; }
  bool have_ended() const;

  // Writes the next token of each that has not ended: the one that it has alone.
  void write_next();

 private:
  int32_t choose(size_t i, const std::vector<double>& logits);
  std::vector<double> alone(size_t i);

  const Writer& writer_;
  const Writing& o_;
  ModelInputs source_;
  Index begun_;
  std::vector<Text> texts_;
  std::vector<bool> ended_;
  Reader reader_;
  std::map<size_t, Reader> alone_;
  uint64_t written_ = 0;  // tokens of each sample
};

// Bytes that so many samples of so many tokens take beside the model while it goes on from what it
// has read; 0 where it cannot, or no device can tell before (experts).
size_t bytes_of_samples(const Writer& writer, int64_t samples, int64_t tokens);

}  // namespace tete
