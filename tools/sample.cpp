// tete sample: text from a trained model, character by character as it is generated, or a prompt
// whose blanks it fills in.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/options.hpp"
#include "tools/samples.hpp"
#include "tools/trained.hpp"
#include "train/stop.hpp"

namespace tete {

struct SampleOptions {
  std::string checkpoint, prompt;
  std::optional<double> temperature;  // not set: 0.8, and 0 for what has one right answer
  int64_t top_k = 0, length = 500;
  uint64_t seed = 0;
  int64_t samples = 1;
  int threads = 0;
  DeviceOptions device;
  bool json = false;
};

static void check_options(const SampleOptions& o) {
  if (o.temperature && !(*o.temperature >= 0 && *o.temperature <= 1000))
    bad_input("--temperature ", *o.temperature, ": expected 0 (always the likeliest) to 1000");
  if (o.top_k < 0) bad_input("--top-k ", o.top_k, ": expected at least 1, or 0 for all");
  if (o.length < 0 || o.length > 1'000'000'000)
    bad_input("--length ", o.length, ": expected 0 to 1000000000");
}

static void generate(const Trained& trained, const SampleOptions& o, const Show& show) {
  Writing writing{*o.temperature, o.top_k, o.length, o.seed, o.samples};
  const Writer writer{trained.model, trained.context(), trained.params, trained.tokenizer};
  if (trained.fills()) {
    for (size_t i = 0; i < static_cast<size_t>(o.samples); ++i, ++writing.seed)
      show(i, fill_blanks(writer, o.prompt, writing));
  } else if (trained.answers()) {
    answer(writer, o.prompt, writing, show);
  } else {
    continue_prompt(writer, o.prompt, writing, show);
  }
}

// Fails (resource) if the samples do not fit into memory together.
static void check_memory(const Trained& trained, const SampleOptions& o) {
  if (o.samples == 1 || trained.fills() || &trained.params[0].backend() != &cpu()) return;
  const Writer writer{trained.model, trained.context(), trained.params, trained.tokenizer};
  const auto prompt = static_cast<int64_t>(trained.tokenizer.encode(o.prompt).size());
  const size_t need = bytes_of_samples(writer, o.samples, prompt + o.length);
  const std::optional<size_t> free = free_memory();
  if (free && need > *free)
    fail(ErrorKind::resource, o.samples, " samples need about ", size_text(need),
         " of memory, but ", size_text(*free), " are free");
}

// Appends the mark of the task to the prompt of a model that answers, and fails if the model cannot
// read the prompt.
static void complete_prompt(const Trained& trained, SampleOptions& o) {
  if (trained.answers()) {
    if (o.prompt.empty()) bad_input("this model answers a prompt: --prompt TEXT is needed");
    if (trained.task && !o.prompt.ends_with(trained.task->mark)) o.prompt += trained.task->mark;
  }
  if (trained.fills()) return;  // its blanks are no letters
  const size_t count = trained.tokenizer.encode(o.prompt).size();
  const Index context = trained.context();
  if (trained.answers() && static_cast<Index>(count) > context)
    bad_input("--prompt has ", count, " tokens, but the model reads at most ", context);
}

static void say(const std::string& piece) {
  std::cout << piece << std::flush;
  if (!std::cout) fail(ErrorKind::resource, "standard output could not be written");
}

// Shows the first sample as it is written, and the others behind it.
static void stream(const Trained& trained, const SampleOptions& o) {
  const std::string begin = trained.answers() ? "" : o.prompt;
  const auto head = [&](size_t i) {
    if (o.samples == 1) return begin;
    return text(i > 0 ? "\n" : "", "== ", i + 1, " of ", o.samples, ", --seed ", o.seed + i, "\n",
                begin);
  };
  std::vector<std::string> later(static_cast<size_t>(o.samples));
  say(head(0));
  generate(trained, o, [&](size_t i, const std::string& piece) {
    if (i == 0) say(piece);
    else later[i] += piece;
  });
  say("\n");
  for (size_t i = 1; i < later.size(); ++i) say(head(i) + later[i] + "\n");
}

// One JSON object.
static void print_json(const Trained& trained, const SampleOptions& o) {
  std::vector<std::string> texts(static_cast<size_t>(o.samples));
  generate(trained, o, [&](size_t i, const std::string& piece) { texts[i] += piece; });
  nlohmann::ordered_json line = {
      {"checkpoint", trained.path},    {"step", trained.step}, {"seed", o.seed},
      {"temperature", *o.temperature}, {"top_k", o.top_k},     {"prompt", o.prompt}};
  if (o.samples == 1) {
    line["text"] = texts[0];
  } else {
    for (size_t i = 0; i < texts.size(); ++i)
      line["samples"].push_back({{"seed", o.seed + i}, {"text", texts[i]}});
  }
  line["stopped"] = StopSignals::requested();
  say(line.dump() + "\n");
}

static int exit_code() { return StopSignals::requested() ? StopSignals::exit_code() : 0; }

static int sample(SampleOptions& o) {
  check_options(o);
  const StopSignals signals;
  use_threads(o.threads);
  const DeviceInUse device(o.device);
  const Trained trained = read_trained(o.checkpoint, *device);
  if (!o.temperature) o.temperature = trained.answers() ? 0 : 0.8;
  complete_prompt(trained, o);
  check_memory(trained, o);
  if (o.json) print_json(trained, o);
  else stream(trained, o);
  return exit_code();
}

Run sample_verb(CLI::App& app) {
  auto o = std::make_shared<SampleOptions>();
  app.add_option("CHECKPOINT", o->checkpoint, "a checkpoint, or a run's folder: its newest one")
      ->required();
  app.add_option(
         "--prompt", o->prompt,
         "the beginning of the text, the question of a task, or, for an encoder, a text with a _ "
         "for each token to fill in")
      ->type_name("TEXT");
  app.add_option("--length", o->length, "characters (or bytes) to write")
      ->type_name("N")
      ->capture_default_str();
  app.add_option(
         "--temperature", o->temperature,
         "0 always takes the likeliest token, 1 samples as the model predicts [0.8; 0 where the "
         "model answers a prompt]")
      ->type_name("X");
  app.add_option("--top-k", o->top_k, "sample from the K likeliest tokens only (0: all)")
      ->type_name("K")
      ->capture_default_str();
  app.add_option("--seed", o->seed, "random seed: the same seed writes the same text")
      ->type_name("N")
      ->capture_default_str();
  add_whole(
      app, "--samples", o->samples, 1, 1 << 20,
      "texts to write, side by side; each has the next seed, and is what that seed writes alone");
  add_threads(app, o->threads);
  add_device(app, o->device);
  app.add_flag("--json", o->json, "one JSON object at the end instead of a stream");
  app.footer(
      "Examples:\n"
      "  tete sample runs/quickstart --prompt \"Tensor \" --temperature 0.7 --top-k 20\n"
      "  tete sample runs/quickstart --samples 5\n"
      "  tete sample runs/addition --prompt 12+7\n"
      "  tete sample runs/mlm --prompt \"the h__ds talk\"");
  return [o] { return sample(*o); };
}

}  // namespace tete
