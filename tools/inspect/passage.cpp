#include "tools/inspect/passage.hpp"

#include <algorithm>
#include <cmath>

#include "tools/generate.hpp"
#include "tools/inspect/places.hpp"

namespace tete {

namespace {

// The tokens of a text, and of its blanks, if the model fills them in.
std::vector<int64_t> encoded(const Trained& trained, const std::string& option,
                             const std::string& text) {
  std::vector<int32_t> tokens;
  try {
    if (trained.fills()) tokens = encode_with_blanks(trained.tokenizer, text);
    else tokens = trained.tokenizer.encode(text);
  } catch (const Error& error) {
    throw Error(error.kind(), tete::text(option, ": ", error.what()));
  }
  return {tokens.begin(), tokens.end()};
}

Tensor as_batch(const std::vector<int64_t>& tokens) {
  return Tensor::of<int64_t>({1, static_cast<Index>(tokens.size())}, tokens);
}

Tensor without_batch(const Tensor& x) { return reshape(x, {x.size(1), x.size(2)}); }

}  // namespace

Passage::Passage(const Trained& trained, const std::string& text,
                 const std::optional<std::vector<int64_t>>& given, const std::string& origin)
    : trained_(trained) {
  std::vector<int64_t> tokens = encoded(trained, origin, text);
  const Index context = trained.context(), count = std::ssize(tokens);
  if (count == 0) bad_input(origin, " is empty: there is nothing to look at");
  if (count > context)
    bad_input(origin, " has ", counted(count, "token"), ", but the model reads at most ", context);
  if (trained.model.kind() == ModelKind::encoder_decoder) {
    sequences_.push_back({"source", std::move(tokens)});
    answer(given);
    return;
  }
  if (trained.fills()) {
    for (int64_t token : tokens) next_.push_back(token < trained.tokenizer.size() ? token : -1);
    sequences_.push_back({"text", std::move(tokens)});
    return;
  }
  next_.assign(tokens.begin() + 1, tokens.end());
  next_.push_back(-1);
  if (trained.task && trained.task->asked) {
    const std::vector<bool> asked = trained.task->asked(text);  // a letter is a token
    for (size_t i = 0; i + 1 < asked.size(); ++i)
      if (!asked[i + 1]) next_[i] = -1;
  }
  sequences_.push_back({"text", std::move(tokens)});
}

void Passage::answer(const std::optional<std::vector<int64_t>>& given) {
  std::vector<int64_t>& tokens =
      sequences_.emplace_back(TokenSequence{given ? "answer" : "own answer", {end_token}}).tokens;
  if (given) {
    next_ = *given;
    tokens.insert(tokens.end(), next_.begin(), next_.end() - 1);
    return;
  }
  do {
    const Tensor logits = trained_.model.last_logits({.params = trained_.params}, inputs());
    next_.push_back(top_k(logits, 1, 1).values<int64_t>()[0]);
    tokens.push_back(next_.back());
  } while (next_.back() != end_token && std::ssize(next_) < trained_.context());
  tokens.pop_back();
}

bool is_finite(const Tensor& x) {
  const std::vector<double> numbers = x.values();
  return std::all_of(numbers.begin(), numbers.end(),
                     [](double each) { return std::isfinite(each); });
}

std::vector<int64_t> answer_tokens(const Trained& trained, const std::string& answer) {
  if (trained.model.kind() != ModelKind::encoder_decoder)
    bad_input("--answer is for models with an encoder; this one reads --text alone");
  std::vector<int64_t> tokens = encoded(trained, "--answer", answer);
  const Index context = trained.context();
  if (std::ssize(tokens) > context)
    bad_input("--answer has ", counted(std::ssize(tokens), "token"),
              ", but the model writes at most ", context);
  if (std::ssize(tokens) < context) tokens.push_back(end_token);
  return tokens;
}

ModelInputs Passage::inputs() const {
  const Tensor first = as_batch(sequences_[0].tokens);
  if (sequences_.size() == 1) return {.X = first};
  return {.X = as_batch(sequences_[1].tokens),
          .M = first,
          .lengths = Tensor::of<int64_t>({1}, {first.size(1)})};
}

Tensor Passage::logits(const Forward& forward) const {
  return without_batch(trained_.model.logits(forward, inputs()));
}

Tensor Passage::logits_of(const Forward& forward, const Tensor& X) const {
  const Model& model = trained_.model;
  return without_batch(model.logits_behind(forward, inputs(), stream_of(model).value, X));
}

double Passage::loss(const Tensor& logits) const {
  const Index n = logits.size(0);
  const Loss loss = token_loss(reshape(logits, {1, n, logits.size(1)}), as_batch(next_));
  return loss.tokens == 0 ? undefined : loss.sum.item() / static_cast<double>(loss.tokens);
}

}  // namespace tete
