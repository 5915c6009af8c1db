#include "tools/lesson.hpp"

#include "tools/embedded.hpp"
#include "tools/generate.hpp"
#include "tools/model_cost.hpp"
#include "train/masked.hpp"

namespace tete {

namespace {

const char* example_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::language_model:
      return "gpt2, X[causal n]";
    case ModelKind::encoder_decoder:
      return "t5, M[m] and X[causal n]";
    case ModelKind::encoder:
      return "bert, X[n]";
  }
  return "";
}

void check_kind(const Model& model, ModelKind needed, const std::string& task) {
  if (model.kind() != needed)
    bad_input("--task ", task, " trains ", name_of(needed), " (as --model ", example_of(needed),
              "), but '", model.program().name, "' is ", name_of(model.kind()));
}

// A lesson with its model, and the loss of what that predicts.
Lesson lesson_of(const ModelSettings& m, ModelKind kind, const std::string& task,
                 const Tokenizer& tokenizer, std::shared_ptr<const Data> data) {
  const Index vocabulary = vocabulary_of(task, tokenizer);
  const auto model = std::make_shared<const Model>(make_model(m, vocabulary));
  check_kind(*model, kind, task);
  Lesson lesson{tokenizer, std::move(data), model, {}, {}};
  // The loss keeps the chances of every token.
  lesson.activations = cost_of(*model, m.context).tiled_bytes +
                       size_of(Dtype::f32) * static_cast<size_t>(m.context * vocabulary);
  const bool counts = task != "text";  // how many of the tokens are right
  lesson.loss = [model, counts](const Forward& forward, const Batch& batch) -> LossSum {
    Tensor Y;
    const Loss loss = model->loss(forward, inputs_of(model->kind(), batch), batch.target, &Y);
    if (!counts || forward.training) return {loss.sum, loss.tokens};
    return {loss.sum, loss.tokens, exact_matches(Y, batch.target)};
  };
  return lesson;
}

// A window of the text that was held out, with blanks, and the same filled in.
std::vector<WrittenText> filled(const Writer& writer, const Data& data) {
  const Batch batch = data.validation_batch(Key(0).fold("samples"), 0, 3);
  std::vector<WrittenText> written;
  for (Index i = 0; i < batch.input.size(0); ++i) {
    const std::vector<int64_t> read = slice(batch.input, 0, i, 1).values<int64_t>();
    const std::string prompt = decode_with_blanks(writer.tokenizer, {read.begin(), read.end()});
    written.push_back({prompt, fill_blanks(writer, prompt, {.temperature = 0})});
  }
  return written;
}

}  // namespace

Lesson text_lesson(const ModelSettings& m, const LearnedText& o) {
  const Corpus learned = o.paths.empty() ? Corpus(corpus()) : Corpus(o.paths);
  const Tokenizer tokenizer = o.unit == Tokenizer::Unit::bytes
                                  ? Tokenizer::bytes()
                                  : Tokenizer::characters(learned.characters());
  TextData text(Tokens(learned, tokenizer), m.context, o.held_out);
  std::shared_ptr<const Data> data;
  if (o.masked) data = std::make_shared<const MaskedData>(std::move(text), tokenizer.size());
  else data = std::make_shared<const TextData>(std::move(text));
  Lesson lesson = lesson_of(m, o.masked ? ModelKind::encoder : ModelKind::language_model,
                            o.masked ? masked_task : "text", tokenizer, data);
  lesson.write = [model = lesson.model, tokenizer, data, masked = o.masked,
                  context = m.context](const Tensors& values) -> std::vector<WrittenText> {
    const Writer writer{*model, context, values, tokenizer};
    if (masked) return filled(writer, *data);
    std::string written;
    continue_prompt(writer, "", {.length = 240},
                    [&](size_t, const std::string& piece) { written += piece; });
    return {{"", written}};
  };
  return lesson;
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

Lesson task_lesson(const Task& task, const ModelSettings& m) {
  const Tokenizer tokenizer = TaskData::tokenizer(task);
  const auto data = std::make_shared<const TaskData>(task, m.context);
  const ModelKind kind = task.encoder ? ModelKind::encoder_decoder : ModelKind::language_model;
  Lesson lesson = lesson_of(m, kind, task.name, tokenizer, data);
  lesson.write = [&task, data, tokenizer, model = lesson.model](const Tensors& values) {
    constexpr Index shown = 6;
    const Key key = Key(0).fold("samples");
    const ModelInputs inputs = inputs_of(model->kind(), data->validation_batch(key, 0, shown));
    const Tensor found = top_k(model->logits({.params = values}, inputs), 2, 1);
    const std::vector<int64_t> all = found.values<int64_t>();
    std::vector<WrittenText> written;
    for (Index i = 0; i < shown; ++i) {
      const auto row = all.begin() + i * found.size(1);
      written.push_back(
          answered(task, tokenizer, data->validation_exercise(key, i), {row, row + found.size(1)}));
    }
    return written;
  };
  return lesson;
}

}  // namespace tete
