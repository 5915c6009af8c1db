#include "tools/task.hpp"

#include "attention/cost.hpp"
#include "tools/embedded.hpp"
#include "train/reverse.hpp"

namespace tete {

bool has_encoder(const std::string& task) {
  const std::string tasks[] = {"text", "reverse"};
  if (task != tasks[0] && task != tasks[1])
    bad_input("--task ", task, ": expected text or reverse", suggestion(task, tasks));
  return task == tasks[1];
}

// The loss keeps the chances of every token.
static size_t loss_bytes(const ModelSettings& m, const Tokenizer& tokenizer) {
  return size_of(Dtype::f32) * static_cast<size_t>(m.context * tokenizer.size());
}

Task text_task(const ModelSettings& m, const ChosenSites& sites, const LearnedText& o) {
  const std::string learned = o.paths.empty() ? corpus() : read_texts(o.paths, o.unit);
  const Tokenizer tokenizer =
      o.unit == Tokenizer::Unit::bytes ? Tokenizer::bytes() : Tokenizer::characters(learned);
  auto data = std::make_unique<TextData>(tokenizer.encode(learned), m.context, o.held_out);
  auto model = std::make_shared<const LanguageModel>(make_model(m, sites, tokenizer.size()));
  const size_t bytes = model_cost(model->config(), sites).bytes;
  return {tokenizer, std::move(data), model->params(),
          [model](const Forward& forward, const Batch& batch) -> LossSum {
            const Loss loss = model->loss(forward, batch.input, batch.target);
            return {loss.sum, loss.tokens};
          },
          bytes + loss_bytes(m, tokenizer)};
}

Task reverse_task(const ModelSettings& m, const ChosenSites& sites) {
  const Tokenizer tokenizer = ReverseData::tokenizer();
  auto data = std::make_unique<ReverseData>(m.context);
  auto model =
      std::make_shared<const EncoderDecoder>(make_encoder_decoder(m, sites, tokenizer.size()));
  const size_t bytes = model_cost(model->config(), sites).bytes;
  return {tokenizer, std::move(data), model->params(),
          [model](const Forward& forward, const Batch& batch) {
            const Sequences memory = model->encode(forward, batch.input, batch.lengths);
            const Tensor logits = model->logits(forward, memory, shifted_right(batch.target));
            const Loss loss = token_loss(logits, batch.target);
            LossSum sum{loss.sum, loss.tokens};
            if (!forward.training) sum.exact = exact_matches(logits, batch.target);
            return sum;
          },
          bytes + loss_bytes(m, tokenizer)};
}

}  // namespace tete
