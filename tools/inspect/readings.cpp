#include "tools/inspect/readings.hpp"

#include <cmath>

#include "core/ops.hpp"
#include "train/files.hpp"

namespace tete {

std::vector<NamedText> read_lines(const std::string& path) {
  const std::string all = read_file(path);
  std::vector<NamedText> texts;
  int64_t number = 0;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\n', at), all.size());
    std::string line = all.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    ++number;
    if (!line.empty()) texts.push_back({line, text(path, ":", number)});
    at = end + 1;
  }
  if (texts.empty()) bad_input("--texts ", path, " has no line with a text");
  return texts;
}

namespace {

int64_t token_called(const Trained& trained, const std::string& name) {
  std::vector<int32_t> tokens;
  try {
    tokens = trained.tokenizer.encode(name);
  } catch (const Error& error) {
    throw Error(error.kind(), text("--token: ", error.what()));
  }
  if (tokens.size() != 1)
    bad_input("--token: expected one token of the model, but '", name, "' is ",
              counted(std::ssize(tokens), "token"));
  return tokens[0];
}

// The position that is asked about where none is given.
Index asked_position(const Trained& trained, const Passage& passage, bool any_token) {
  const std::vector<int64_t>& next = passage.next();
  const Index last = std::ssize(next) - 1;
  if (trained.fills()) {
    for (Index i = last; i >= 0; --i)
      if (next[i] < 0) return i;
    return last;
  }
  const bool answers = trained.model.kind() == ModelKind::encoder_decoder;
  if (any_token) return last;
  for (Index i = last; i >= 0; --i)
    if (next[i] >= 0 && !(answers && next[i] == end_token && i > 0)) return i;
  return last;
}

Tensor logits_at(const Tensor& logits, Index position) {
  return cast(row_of(logits, 0, position), Dtype::f64);
}

}  // namespace

double TextReading::probability_of(const Tensor& logits) const {
  return softmax(logits_at(logits, position), 0).values()[static_cast<size_t>(token)];
}

TextReading read(const Trained& trained, const NamedText& text,
                 const std::optional<std::vector<int64_t>>& answer, const AskedToken& asked) {
  TextReading made{text,     Passage(trained, text.text, answer, text.origin), 0, 0, undefined,
                   undefined};
  const std::vector<int64_t>& next = made.passage.next();
  made.position =
      asked.position.value_or(asked_position(trained, made.passage, asked.token.has_value()));
  if (made.position >= std::ssize(next))
    bad_input("--position ", made.position, ": ", text.origin, " has ",
              counted(std::ssize(next), "position"), ", counted from 0");
  const Tensor logits = made.passage.logits({.params = made.passage.params()});
  made.token = asked.token ? token_called(trained, *asked.token) : next[made.position];
  if (made.token < 0)
    made.token = top_k(logits_at(logits, made.position), 0, 1).values<int64_t>()[0];
  made.loss = made.passage.loss(logits);
  made.probability = made.probability_of(logits);
  return made;
}

Estimate estimate_of(const std::vector<double>& numbers) {
  double sum = 0, squares = 0, count = 0;
  for (double x : numbers)
    if (!std::isnan(x)) sum += x, ++count;
  if (count == 0) return {};
  const double mean = sum / count;
  for (double x : numbers)
    if (!std::isnan(x)) squares += (x - mean) * (x - mean);
  return {mean, count > 1 ? std::sqrt(squares / (count - 1)) : undefined};
}

}  // namespace tete
