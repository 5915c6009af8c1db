#include "tools/lesson.hpp"

#include "tools/embedded.hpp"
#include "tools/generate.hpp"
#include "tools/model_cost.hpp"

namespace tete {

// The loss keeps the chances of every token.
static size_t loss_bytes(const ModelSettings& m, const Tokenizer& tokenizer) {
  return size_of(Dtype::f32) * static_cast<size_t>(m.context * tokenizer.size());
}

Lesson text_lesson(const ModelSettings& m, const ChosenSites& sites, const LearnedText& o) {
  std::string learned = o.paths.empty() ? corpus() : read_texts(o.paths, o.unit);
  const Tokenizer tokenizer =
      o.unit == Tokenizer::Unit::bytes ? Tokenizer::bytes() : Tokenizer::characters(learned);
  const auto data = std::make_shared<const TextData>(tokenizer.encode_all(std::move(learned)),
                                                     m.context, o.held_out);
  Lesson lesson{tokenizer, data, {}, {}, {}, 0, data->bytes()};
  const auto learn = [&](const auto& model, size_t bytes, const auto& write) {
    lesson.params = model->params();
    lesson.activations = bytes + loss_bytes(m, tokenizer);
    lesson.loss = [model](const Forward& forward, const Batch& batch) -> LossSum {
      const Loss loss = model->loss(forward, batch.input, batch.target);
      return {loss.sum, loss.tokens};
    };
    lesson.write = [model, write](const Tensors& values) -> std::vector<WrittenText> {
      std::string written;
      write(*model, values, [&](const std::string& piece) { written += piece; });
      return {{"", written}};
    };
  };
  const Writing brief{.length = 240};
  if (is_text(m)) {
    auto model = std::make_shared<const Model>(make_text_model(m, tokenizer.size()));
    learn(model, model_cost(*model, m.context).tiled_bytes,
          [tokenizer, brief, context = m.context](const Model& model, const Tensors& values,
                                                  const Show& show) {
            continue_prompt(model, context, values, tokenizer, "", brief, show);
          });
  } else {
    auto model = std::make_shared<const LanguageModel>(make_model(m, sites, tokenizer.size()));
    learn(model, model_cost(model->config(), sites).bytes,
          [tokenizer, brief](const LanguageModel& model, const Tensors& values, const Show& show) {
            continue_prompt(model, values, tokenizer, "", brief, show);
          });
  }
  return lesson;
}

// The loss of answers, and how many are right.
static LossSum answer_loss(const Forward& forward, const Tensor& logits, const Tensor& target) {
  const Loss loss = token_loss(logits, target);
  LossSum sum{loss.sum, loss.tokens};
  if (!forward.training) sum.right = exact_matches(logits, target);
  return sum;
}

// The likeliest letters where an answer is asked for, each after the right ones before it.
static WrittenText answered(const Task& task, const Tokenizer& tokenizer, const Exercise& exercise,
                            const std::vector<int64_t>& likeliest) {
  const size_t begins = task.encoder ? 0 : exercise.prompt.size() - 1;
  std::string found, right;
  for (size_t i = 0; i < exercise.answer.size(); ++i) {
    const bool counted = exercise.counted[i];
    found += counted ? tokenizer.piece(static_cast<int32_t>(likeliest[begins + i])) : "·";
    right += counted ? std::string(1, exercise.answer[i]) : "·";
  }
  if (right.ends_with("\n") && found.ends_with("\n")) right.pop_back(), found.pop_back();
  const bool same = found == right;
  for (size_t at; (at = found.find('\n')) != std::string::npos;) found.replace(at, 1, "⏎");
  return {exercise.prompt + (task.encoder ? " → " : ""),
          found + (same ? "  ✓" : "  ✗ not " + right)};
}

Lesson task_lesson(const Task& task, const ModelSettings& m, const ChosenSites& sites) {
  const Tokenizer tokenizer = TaskData::tokenizer(task);
  const auto data = std::make_shared<const TaskData>(task, m.context);
  Lesson lesson{tokenizer, data, {}, {}, {}};
  const auto learn = [&](const auto& model, size_t bytes, const auto& logits) {
    lesson.params = model->params();
    lesson.activations = bytes + loss_bytes(m, tokenizer);
    lesson.loss = [model, logits](const Forward& forward, const Batch& batch) {
      return answer_loss(forward, logits(*model, forward, batch), batch.target);
    };
    lesson.write = [&task, data, tokenizer, model, logits](const Tensors& values) {
      constexpr Index shown = 6;
      const Key key = Key(0).fold("samples");
      const Tensor found =
          top_k(logits(*model, {.params = values}, data->validation_batch(key, 0, shown)), 2, 1);
      const std::vector<int64_t> all = found.values<int64_t>();
      std::vector<WrittenText> written;
      for (Index i = 0; i < shown; ++i) {
        const auto row = all.begin() + i * found.size(1);
        written.push_back(answered(task, tokenizer, data->validation_exercise(key, i),
                                   {row, row + found.size(1)}));
      }
      return written;
    };
  };
  if (task.encoder) {
    auto model =
        std::make_shared<const EncoderDecoder>(make_encoder_decoder(m, sites, tokenizer.size()));
    learn(model, model_cost(model->config(), sites).bytes,
          [](const EncoderDecoder& model, const Forward& forward, const Batch& batch) {
            const Sequences memory = model.encode(forward, batch.input, batch.lengths);
            return model.logits(forward, memory, shifted_right(batch.target));
          });
  } else if (is_text(m)) {
    auto model = std::make_shared<const Model>(make_text_model(m, tokenizer.size()));
    learn(model, model_cost(*model, m.context).tiled_bytes,
          [](const Model& model, const Forward& forward, const Batch& batch) {
            return model.logits(forward, batch.input);
          });
  } else {
    auto model = std::make_shared<const LanguageModel>(make_model(m, sites, tokenizer.size()));
    learn(model, model_cost(model->config(), sites).bytes,
          [](const LanguageModel& model, const Forward& forward, const Batch& batch) {
            return model.logits(forward, batch.input);
          });
  }
  return lesson;
}

}  // namespace tete
