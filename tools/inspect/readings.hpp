// Readings: the texts over which numbers are averaged, and the token that each is asked about.
#pragma once
#include "tools/inspect/passage.hpp"

namespace tete {

// The token whose probability and logit are told.
struct AskedToken {
  // Not set: what does follow the position; where that is not known, what the model finds
  // likeliest.
  std::optional<std::string> token = {};
  // After which position of the sequence that is predicted. Not set: with `token` the last; else
  // the last whose next token is known and no end of an answer; of blanks the last.
  std::optional<Index> position = {};
};

// One text, and where it is from: "--text", or "lines.txt:3".
struct NamedText {
  std::string text, origin;
};
// The lines of a file that are not empty; they end in \n or \r\n. Fails (input) where there are
// none.
std::vector<NamedText> read_lines(const std::string& path);

struct TextReading {
  NamedText text;
  Passage passage;
  Index position;
  int64_t token;
  double loss, probability;  // as the model is

  // The probability of the token after the position, from logits[n, v], in double.
  double probability_of(const Tensor& logits) const;
};

// Fails (input) on a token that is not one, and on a position that the text does not have.
TextReading read(const Trained& trained, const NamedText& text,
                 const std::optional<std::vector<int64_t>>& answer, const AskedToken& asked);

// NaN is not counted.
Estimate estimate_of(const std::vector<double>& numbers);

}  // namespace tete
