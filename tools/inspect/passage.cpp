#include "tools/inspect/passage.hpp"

#include "tools/inspect/places.hpp"

namespace tete {

namespace {

std::vector<int64_t> encoded(const Trained& trained, const char* option, const std::string& text) {
  std::vector<int32_t> tokens;
  try {
    tokens = trained.tokenizer.encode(text);
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
                 const std::optional<std::vector<int64_t>>& given)
    : trained_(trained) {
  std::vector<int64_t> tokens = encoded(trained, "--text", text);
  const Index context = trained.context(), count = std::ssize(tokens);
  if (count == 0) bad_input("--text is empty: there is nothing to look at");
  if (count > context)
    bad_input("--text has ", counted(count, "token"), ", but the model reads at most ", context);
  if (const auto* both = std::get_if<EncoderDecoder>(&trained.model)) {
    sequences_.push_back({"source", std::move(tokens)});
    answer(*both, given);
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

void Passage::answer(const EncoderDecoder& model,
                     const std::optional<std::vector<int64_t>>& given) {
  const Forward forward{.params = trained_.params};
  const Tensor source = as_batch(sequences_[0].tokens);
  const Sequences memory =
      model.encode(forward, source, Tensor::of<int64_t>({1}, {source.size(1)}));
  std::vector<int64_t> tokens{end_token};
  if (given) {
    next_ = *given;
    tokens.insert(tokens.end(), next_.begin(), next_.end() - 1);
  } else {
    do {
      const Tensor logits = model.last_logits(forward, memory, as_batch(tokens));
      next_.push_back(top_k(logits, 1, 1).values<int64_t>()[0]);
      tokens.push_back(next_.back());
    } while (next_.back() != end_token && std::ssize(next_) < model.config().context);
    tokens.pop_back();
  }
  sequences_.push_back({"answer", std::move(tokens)});
}

std::vector<int64_t> answer_tokens(const Trained& trained, const std::string& answer) {
  if (!trained.settings.encoder)
    bad_input("--answer is for models with an encoder; this one reads --text alone");
  std::vector<int64_t> tokens = encoded(trained, "--answer", answer);
  const Index context = trained.context();
  if (std::ssize(tokens) > context)
    bad_input("--answer has ", counted(std::ssize(tokens), "token"),
              ", but the model writes at most ", context);
  if (std::ssize(tokens) < context) tokens.push_back(end_token);
  return tokens;
}

Tensor Passage::logits(const Forward& forward) const {
  const Tensor first = as_batch(sequences_[0].tokens);
  if (const auto* model = std::get_if<LanguageModel>(&trained_.model))
    return without_batch(model->logits(forward, first));
  if (const auto* model = std::get_if<Model>(&trained_.model))
    return without_batch(model->logits(forward, {.X = first}));
  const auto& model = std::get<EncoderDecoder>(trained_.model);
  const Sequences memory = model.encode(forward, first, Tensor::of<int64_t>({1}, {first.size(1)}));
  return without_batch(model.logits(forward, memory, as_batch(sequences_[1].tokens)));
}

Tensor Passage::logits_of(const Forward& forward, const Tensor& X) const {
  if (const auto* model = std::get_if<LanguageModel>(&trained_.model))
    return without_batch(model->logits_of(forward, X));
  if (const auto* model = std::get_if<Model>(&trained_.model))
    return without_batch(model->logits_behind(forward, {.X = as_batch(sequences_.back().tokens)},
                                              stream_of(*model).value, X));
  return without_batch(std::get<EncoderDecoder>(trained_.model).logits_of(forward, X));
}

double Passage::loss(const Tensor& logits) const {
  const Index n = logits.size(0);
  const Loss loss = token_loss(reshape(logits, {1, n, logits.size(1)}), as_batch(next_));
  return loss.tokens == 0 ? undefined : loss.sum.item() / static_cast<double>(loss.tokens);
}

}  // namespace tete
