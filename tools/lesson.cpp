#include "tools/lesson.hpp"

#include "tools/embedded.hpp"
#include "tools/generate.hpp"
#include "train/masked.hpp"

namespace tete {

namespace {

// Numbered as ModelKind is.
constexpr const char* kinds[] = {"a language model (X[causal n])",
                                 "an encoder with a decoder (M[m], X[causal n])",
                                 "an encoder (X[n])"};
constexpr const char* examples[] = {"gpt2", "t5", "bert"};

void check_kind(const AnyModel& model, ModelKind needed, const std::string& task) {
  const auto kind = static_cast<size_t>(kind_of(model)), fits = static_cast<size_t>(needed);
  if (kind == fits) return;
  const auto* text = std::get_if<Model>(&model);
  bad_input("--task ", task, " trains ", kinds[fits], ", as --model ", examples[fits], " is, but ",
            text ? "'" + text->program().name + "'" : "the model without --model", " is ",
            kinds[kind]);
}

// What all lessons have: a model of the settings, and the loss of what it predicts.
struct Learner {
  std::shared_ptr<const AnyModel> model;
  Lesson lesson;

  Learner(const ModelSettings& m, const ChosenSites& sites, ModelKind kind, const std::string& task,
          const Tokenizer& tokenizer, std::shared_ptr<const Data> data)
      : lesson{tokenizer, std::move(data), {}, {}, {}} {
    const Index vocabulary = vocabulary_of(task, tokenizer);
    model = std::make_shared<const AnyModel>(make_any_model(m, sites, vocabulary));
    check_kind(*model, kind, task);
    lesson.params = params_of(*model);
    // The loss keeps the chances of every token.
    lesson.activations = cost_of(*model, sites, m.context).tiled_bytes +
                         size_of(Dtype::f32) * static_cast<size_t>(m.context * vocabulary);
    const bool counts = task != "text";  // how many of the tokens are right
    lesson.loss = [model = model, counts](const Forward& forward, const Batch& batch) -> LossSum {
      Tensors terms;
      Forward with_terms = forward;
      with_terms.losses = &terms;
      const Tensor Y = logits(*model, with_terms, inputs_of(kind_of(*model), batch));
      const Loss loss = with_losses(token_loss(Y, batch.target), terms);
      if (!counts || forward.training) return {loss.sum, loss.tokens};
      return {loss.sum, loss.tokens, exact_matches(Y, batch.target)};
    };
  }
};

// A window of the text that was held out, with blanks, and the same filled in.
std::vector<WrittenText> filled(const Writer& writer, const Data& data) {
  const Batch batch = data.validation_batch(Key(0).fold("samples"), 0, 3);
  std::vector<WrittenText> written;
  for (Index i = 0; i < batch.input.size(0); ++i) {
    const std::vector<int64_t> read = slice(batch.input, 0, i, 1).values<int64_t>();
    std::string prompt;
    for (int64_t token : read)
      prompt += token < writer.tokenizer.size()
                    ? writer.tokenizer.piece(static_cast<int32_t>(token))
                    : std::string(1, blank);
    written.push_back({prompt, fill_blanks(writer, prompt, {.temperature = 0})});
  }
  return written;
}

}  // namespace

Lesson text_lesson(const ModelSettings& m, const ChosenSites& sites, const LearnedText& o) {
  std::string learned = o.paths.empty() ? corpus() : read_texts(o.paths, o.unit);
  const Tokenizer tokenizer =
      o.unit == Tokenizer::Unit::bytes ? Tokenizer::bytes() : Tokenizer::characters(learned);
  TextData text(tokenizer.encode_all(std::move(learned)), m.context, o.held_out);
  const size_t bytes = text.bytes();
  std::shared_ptr<const Data> data;
  if (o.masked) data = std::make_shared<const MaskedData>(std::move(text), tokenizer.size());
  else data = std::make_shared<const TextData>(std::move(text));
  auto [model, lesson] =
      Learner(m, sites, o.masked ? ModelKind::encoder : ModelKind::language_model,
              o.masked ? masked_task : "text", tokenizer, data);
  lesson.text = bytes;
  lesson.write = [model = model, tokenizer, data, masked = o.masked,
                  context = m.context](const Tensors& values) -> std::vector<WrittenText> {
    const Writer writer{*model, context, values, tokenizer};
    if (masked) return filled(writer, *data);
    std::string written;
    continue_prompt(writer, "", {.length = 240},
                    [&](const std::string& piece) { written += piece; });
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

Lesson task_lesson(const Task& task, const ModelSettings& m, const ChosenSites& sites) {
  const Tokenizer tokenizer = TaskData::tokenizer(task);
  const auto data = std::make_shared<const TaskData>(task, m.context);
  const ModelKind kind = task.encoder ? ModelKind::encoder_decoder : ModelKind::language_model;
  auto [model, lesson] = Learner(m, sites, kind, task.name, tokenizer, data);
  lesson.write = [&task, data, tokenizer, kind, model = model](const Tensors& values) {
    constexpr Index shown = 6;
    const Key key = Key(0).fold("samples");
    const ModelInputs inputs = inputs_of(kind, data->validation_batch(key, 0, shown));
    const Tensor found = top_k(logits(*model, {.params = values}, inputs), 2, 1);
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
