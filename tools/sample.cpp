// tete sample: text from a trained model, character by character as it is generated.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <variant>

#include "core/random.hpp"
#include "core/utf8.hpp"
#include "tools/options.hpp"
#include "tools/sites.hpp"
#include "train/checkpoint.hpp"
#include "train/task.hpp"

namespace tete {

struct SampleOptions {
  std::string checkpoint, prompt;
  std::optional<double> temperature;  // not set: 0.8, and 0 for what has one right answer
  int64_t top_k = 0, length = 500;
  uint64_t seed = 0;
  int threads = 0;
  bool json = false;
};

static void check_options(const SampleOptions& o) {
  if (o.temperature && !(*o.temperature >= 0 && *o.temperature <= 1000))
    bad_input("--temperature ", *o.temperature, ": expected 0 (always the likeliest) to 1000");
  if (o.top_k < 0) bad_input("--top-k ", o.top_k, ": expected at least 1, or 0 for all");
  if (o.length < 0 || o.length > 1'000'000'000)
    bad_input("--length ", o.length, ": expected 0 to 1000000000");
}

// What follows: one token drawn from softmax(logits / temperature) over the top_k likeliest (ties:
// the smaller token). Temperature 0: the likeliest.
static int32_t draw(const std::vector<double>& logits, const SampleOptions& o, double chance) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (!std::isfinite(logits[order[0]]))
    fail(Kind::numbers, "the model's logits are not finite: its training went wrong");
  if (*o.temperature == 0) return order[0];
  if (o.top_k > 0 && o.top_k < static_cast<int64_t>(order.size())) order.resize(o.top_k);
  std::vector<double> weights;
  for (int32_t token : order)
    weights.push_back(std::exp((logits[token] - logits[order[0]]) / *o.temperature));
  double left = chance * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < order.size(); ++i)
    if ((left -= weights[i]) < 0) return order[i];
  return order.back();
}

// Hands on whole characters only: bytes wait until their character is complete. What is not UTF-8
// becomes U+FFFD, as a terminal would show it.
class WholeCharacters {
 public:
  std::string add(std::string_view piece) {
    waiting_ += piece;
    std::string out;
    size_t at = 0;
    while (at < waiting_.size()) {
      const Character c = read_character(waiting_, at);
      if (c.length > 0) {
        out.append(waiting_, at, c.length);
        at += c.length;
      } else if (waiting_.size() - at < 4 && may_go_on(std::string_view(waiting_).substr(at))) {
        break;
      } else {
        out += "\xEF\xBF\xBD";
        ++at;
      }
    }
    waiting_.erase(0, at);
    return out;
  }
  std::string rest() { return std::exchange(waiting_, "").empty() ? "" : "\xEF\xBF\xBD"; }

 private:
  // Whether more bytes could complete it to a character.
  static bool may_go_on(std::string_view bytes) {
    const auto lead = static_cast<unsigned char>(bytes[0]);
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || bytes.size() >= length) return false;
    return std::all_of(bytes.begin() + 1, bytes.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; });
  }
  std::string waiting_;
};

// Where nothing came before, a line begins.
static std::vector<int32_t> beginning(const Tokenizer& tokenizer) {
  try {
    return tokenizer.encode("\n");
  } catch (const Error&) {
    return {0};
  }
}

struct Loaded {
  Tokenizer tokenizer;
  std::variant<LanguageModel, EncoderDecoder> model;
  Tensors params;
  std::string path;
  int64_t step;
  const Task* task;  // that it learned, or nullptr

  bool answers() const { return task || std::holds_alternative<EncoderDecoder>(model); }
};

static Loaded load(const std::string& where) {
  std::vector<std::string> warnings;
  const std::string path = find_checkpoint(where, &warnings);
  for (const std::string& warning : warnings) std::cerr << "warning: " << warning << std::endl;
  const Safetensors file(path);
  const RunState state = read_state(file);
  const auto config = nlohmann::ordered_json::parse(state.config, nullptr, false);
  if (!config.is_object() || !config.contains("model"))
    bad_input(path, ": its configuration is not one of `tete train`");
  Tokenizer tokenizer = Tokenizer::read(state.tokenizer);
  const ModelSettings settings = settings_from_json(config["model"]);
  const ChosenSites sites = choose_sites(settings);
  const Task* task = find_task(config.value("task", ""));
  const auto loaded = [&](auto model) -> Loaded {
    Tensors params = read_params(file, model.params().specs());
    return {std::move(tokenizer), std::move(model), std::move(params), path, state.step, task};
  };
  const Index vocabulary = tokenizer.size();
  return settings.encoder ? loaded(make_encoder_decoder(settings, sites, vocabulary))
                          : loaded(make_model(settings, sites, vocabulary));
}

// What may follow a text, token by token. As long as the text fits into the context each token is
// read once; after that, and where an attention needs its whole sequence anew, all of the context.
template <class Model>
class Reader {
 public:
  explicit Reader(const Model& model) : model_(model) {}

  std::vector<double> after(const Forward& forward, const std::vector<int32_t>& tokens) {
    const Index context = model_.config().context, count = static_cast<Index>(tokens.size());
    if (count > context) keeps_ = false;
    if (keeps_) try {
        return model_.next_logits(forward, last(tokens, count - past_.length), past_).values();
      } catch (const Error& error) {
        if (error.kind() != Kind::input || past_.length > 0) throw;
        keeps_ = false;
      }
    return model_.last_logits(forward, last(tokens, std::min(context, count))).values();
  }

 private:
  static Tensor last(const std::vector<int32_t>& tokens, Index count) {
    return Tensor::of<int64_t>({1, count},
                               std::vector<int64_t>(tokens.end() - count, tokens.end()));
  }
  const Model& model_;
  Decoding past_;
  bool keeps_ = true;
};

using Show = std::function<void(const std::string&)>;

// What goes on from the prompt. Calls `show` with each piece as soon as it is known.
static void go_on(const Loaded& loaded, const LanguageModel& model, const SampleOptions& o,
                  const Show& show) {
  std::vector<int32_t> tokens = loaded.tokenizer.encode(o.prompt);
  if (tokens.empty()) tokens = beginning(loaded.tokenizer);
  const Index context = model.config().context;
  const Key key = Key(o.seed).fold("sample");
  const Forward forward{.params = loaded.params};
  Reader reader(model);
  WholeCharacters whole;
  for (int64_t i = 0; i < o.length; ++i) {
    const std::vector<double> logits = reader.after(forward, tokens);
    tokens.push_back(draw(logits, o, uniform(key, i)));
    if (static_cast<Index>(tokens.size()) > 2 * context)
      tokens.erase(tokens.begin(), tokens.end() - context);
    show(whole.add(loaded.tokenizer.piece(tokens.back())));
  }
  show(whole.rest());
}

// A decoder that answers one source.
struct Answering {
  const EncoderDecoder& model;
  Sequences source;

  const LanguageModelConfig& config() const { return model.config(); }
  Tensor last_logits(const Forward& forward, const Tensor& tokens) const {
    return model.last_logits(forward, source, tokens);
  }
  Tensor next_logits(const Forward& forward, const Tensor& tokens, Decoding& decoding) const {
    return model.next_logits(forward, source, tokens, decoding);
  }
};

// What follows `tokens` until the model ends it, or its context is full.
template <class Model>
static void write_answer(const Loaded& loaded, const Model& model, std::vector<int32_t> tokens,
                         const SampleOptions& o, const Show& show) {
  const Forward forward{.params = loaded.params};
  const Key key = Key(o.seed).fold("sample");
  Reader reader(model);
  for (int64_t i = 0; i < o.length; ++i) {
    if (static_cast<Index>(tokens.size()) > model.config().context) return;
    tokens.push_back(draw(reader.after(forward, tokens), o, uniform(key, i)));
    if (tokens.back() == end_token) return;
    show(loaded.tokenizer.piece(tokens.back()));
  }
}

static void answer(const Loaded& loaded, const LanguageModel& model, const SampleOptions& o,
                   const Show& show) {
  write_answer(loaded, model, loaded.tokenizer.encode(o.prompt), o, show);
}

static void answer(const Loaded& loaded, const EncoderDecoder& model, const SampleOptions& o,
                   const Show& show) {
  const std::vector<int32_t> encoded = loaded.tokenizer.encode(o.prompt);
  const auto length = static_cast<Index>(encoded.size());
  const Forward forward{.params = loaded.params};
  const Tensor source =
      Tensor::of<int64_t>({1, length}, std::vector<int64_t>(encoded.begin(), encoded.end()));
  const Answering answering{model,
                            model.encode(forward, source, Tensor::of<int64_t>({1}, {length}))};
  write_answer(loaded, answering, {end_token}, o, show);
}

static void generate(const Loaded& loaded, const SampleOptions& o, const Show& show) {
  if (loaded.answers())
    std::visit([&](const auto& model) { answer(loaded, model, o, show); }, loaded.model);
  else go_on(loaded, std::get<LanguageModel>(loaded.model), o, show);
}

// What answers needs a question that it can read, with the mark that asks.
static void check_prompt(const Loaded& loaded, SampleOptions& o) {
  if (loaded.answers()) {
    if (o.prompt.empty()) bad_input("this model answers a prompt: --prompt TEXT is needed");
    if (loaded.task && !o.prompt.ends_with(loaded.task->mark)) o.prompt += loaded.task->mark;
  }
  const size_t count = loaded.tokenizer.encode(o.prompt).size();
  const Index context =
      std::visit([](const auto& model) { return model.config().context; }, loaded.model);
  if (loaded.answers() && static_cast<Index>(count) > context)
    bad_input("--prompt has ", count, " tokens, but the model reads at most ", context);
}

static int sample(SampleOptions& o) {
  check_options(o);
  use_threads(o.threads);
  const Loaded loaded = load(o.checkpoint);
  if (!o.temperature) o.temperature = loaded.answers() ? 0 : 0.8;
  check_prompt(loaded, o);
  if (o.json) {
    std::string all;
    generate(loaded, o, [&](const std::string& piece) { all += piece; });
    const nlohmann::ordered_json line = {{"checkpoint", loaded.path},
                                         {"step", loaded.step},
                                         {"seed", o.seed},
                                         {"temperature", *o.temperature},
                                         {"top_k", o.top_k},
                                         {"prompt", o.prompt},
                                         {"text", all}};
    std::cout << line.dump() << "\n";
    return 0;
  }
  if (!loaded.answers()) std::cout << o.prompt << std::flush;
  generate(loaded, o, [](const std::string& piece) {
    std::cout << piece << std::flush;
    if (!std::cout) fail(Kind::resource, "standard output could not be written");
  });
  std::cout << std::endl;
  return 0;
}

Run sample_verb(CLI::App& app) {
  auto o = std::make_shared<SampleOptions>();
  app.add_option("CHECKPOINT", o->checkpoint, "a checkpoint, or a run's folder: its newest one")
      ->required();
  app.add_option("--prompt", o->prompt, "what the text begins with, or what is to be answered")
      ->type_name("TEXT");
  app.add_option("--length", o->length, "characters (or bytes) to write")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--temperature", o->temperature,
                 "how much is left to chance: 0 always takes the likeliest, 1 draws as the model "
                 "predicts [0.8; 0 where the model answers a task's prompt]")
      ->type_name("X");
  app.add_option("--top-k", o->top_k, "draw among the K likeliest only (0: all)")
      ->type_name("K")
      ->capture_default_str();
  app.add_option("--seed", o->seed, "of chance: the same seed writes the same text")
      ->type_name("N")
      ->capture_default_str();
  add_threads(app, o->threads);
  app.add_flag("--json", o->json, "one JSON object at the end instead of a stream");
  app.footer(
      "Examples:\n"
      "  tete sample runs/quickstart --prompt \"Tensor \" --temperature 0.7 --top-k 20\n"
      "  tete sample runs/addition --prompt 12+7");
  return [o] { return sample(*o); };
}

}  // namespace tete
