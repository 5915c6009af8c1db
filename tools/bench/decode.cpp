// tete bench decode: a token of a language model that reads on from what it has cached.
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/threads.hpp"
#include "tools/bench/nouns.hpp"
#include "tools/bench/profile.hpp"
#include "tools/bench/report.hpp"
#include "tools/config.hpp"
#include "tools/json_number.hpp"
#include "tools/model_options.hpp"
#include "train/machine.hpp"

namespace tete {

using nlohmann::ordered_json;

namespace {

struct DecodeBenchOptions : ModelOptions {
  BenchOptions bench;
  Index batch = 1, vocabulary = 65, prompt = 16;
};

constexpr Index tokens_a_turn = 8;

// The rate at which the processor's memory is only read, in turns with a token: no token can be
// faster than all parameters are read once.
struct Limit {
  double read_rate = 0;  // bytes a second
  double bytes = 0;      // of the parameters
  Timing token = {};     // in the same turns
  double seconds() const { return bytes / read_rate; }
  double part() const { return seconds() / token.median(); }
};

Tensor random_tokens(const DecodeBenchOptions& o, Index count, int64_t call) {
  std::vector<int64_t> drawn;
  for (Index i = 0; i < o.batch * count; ++i)
    drawn.push_back(static_cast<int64_t>(uniform_below(Key(0).fold("tokens").fold(call),
                                                       static_cast<uint64_t>(i),
                                                       static_cast<uint64_t>(o.vocabulary))));
  return Tensor::of<int64_t>({o.batch, count}, std::span<const int64_t>(drawn));
}

// Reads some tokens behind the prompt, one by one; each call from the same state.
std::function<void()> decoding(const DecodeBenchOptions& o, const Model& model,
                               const Tensors& values) {
  const auto after_prompt = std::make_shared<Decoding>();
  model.next_logits({.params = values}, {.X = random_tokens(o, o.prompt, 0)}, *after_prompt);
  return [&o, &model, &values, after_prompt] {
    Decoding state = *after_prompt;
    for (Index i = 0; i < tokens_a_turn; ++i)
      model.next_logits({.params = values}, {.X = random_tokens(o, 1, i + 1)}, state);
  };
}

Limit limit_of(const Work& work, double bytes, int repeats) {
  const Probe read = read_probe();
  const Turn turn = turn_of(work.call), token = [turn] { return turn() / tokens_a_turn; };
  const SteadyTurns steady =
      in_steady_turns({read.turn, token}, peak_probe(Dtype::f32, threads()).turn, repeats);
  return {read.rate(steady.turns[0]), bytes, steady.turns[1]};
}

ordered_json to_json(const DecodeBenchOptions& o, const Model& model,
                     const std::optional<Limit>& limit, const Bench& bench) {
  const Measured& row = bench.rows()[0];
  const double token = limit ? limit->token.median() : row.time.median() / tokens_a_turn;
  ordered_json json = {{"bench", "decode"},
                       {"model", described(o.model)},
                       {"layers", or_null(size_of(model, "l"))},
                       {"heads", or_null(size_of(model, "h"))},
                       {"d_model", or_null(size_of(model, "d_X"))},
                       {"prompt", o.prompt},
                       {"batch", o.batch},
                       {"vocabulary", o.vocabulary},
                       {"parameters", model.params().element_total()},
                       {"ms_per_token", 1e3 * token}};
  if (limit) {
    json["read_gb_per_s"] = limit->read_rate / 1e9;
    json["percent_of_reading"] = 100 * limit->part();
  }
  json.update(to_json(row));
  json.update(bench.machine());
  return json;
}

void print(const DecodeBenchOptions& o, const Model& model, const std::optional<Limit>& limit,
           const Bench& bench) {
  std::printf("%s, %sbatch %lld, behind %lld tokens, f32, %s parameters\n\n",
              described(o.model).c_str(), shape_of(model).c_str(), static_cast<long long>(o.batch),
              static_cast<long long>(o.prompt),
              count_text(static_cast<double>(model.params().element_total())).c_str());
  bench.print();
  if (!limit) return;
  std::printf(
      "token   %s: %s%% of the rate at which its parameters can be read once (%s, %s GB/s)\n",
      time_text(limit->token.median()).c_str(), digits(100 * limit->part()).c_str(),
      time_text(limit->seconds()).c_str(), digits(limit->read_rate / 1e9).c_str());
}

Profile profile_of(const DecodeBenchOptions& o, const Model& model, const Tensors& values) {
  ClockedProcessor device;
  Tensors there;
  for (const Tensor& value : values) there.push_back(value.to(device));
  return profile_of(device, decoding(o, model, there), o.bench.repeats);
}

int bench_decoding(DecodeBenchOptions& o, CLI::App& app) {
  read_model(o, app, false);
  if (o.prompt + tokens_a_turn > o.model.context)
    bad_input("--prompt ", o.prompt, ": with ", tokens_a_turn, " tokens more it is longer than ",
              "--context ", o.model.context);
  use_threads(o.bench.threads);
  const DeviceInUse device(o.bench.device);
  const Model model = make_model(o.model, o.vocabulary);
  if (model.kind() != ModelKind::language_model)
    bad_input("bench decode times a language model; ", described(o.model), " is ",
              name_of(model.kind()));
  const double bytes = sizeof(float) * static_cast<double>(model.params().element_total());
  check_memory("this model", static_cast<size_t>(bytes), *device);
  const Tensors values = model.params().initial_values(Key(0).fold("init"), Dtype::f32, *device);
  Bench bench(o.bench, Dtype::f32, *device);
  const Work work{.name = std::to_string(tokens_a_turn) + " tokens",
                  .call = decoding(o, model, values),
                  .bytes = tokens_a_turn * bytes};
  bench.add(work);
  const std::optional<Limit> limit =
      &*device == &cpu() ? std::optional(limit_of(work, bytes, bench.repeats())) : std::nullopt;
  const std::optional<Profile> profile =
      o.bench.profile ? std::optional(profile_of(o, model, values)) : std::nullopt;
  if (o.bench.json) {
    ordered_json json = to_json(o, model, limit, bench);
    if (profile) json["profile"] = to_json(*profile);
    std::cout << json.dump(2) << "\n";
  } else {
    print(o, model, limit, bench);
    if (profile) print(*profile);
  }
  return 0;
}

}  // namespace

Run bench_decode(CLI::App& app) {
  auto o = std::make_shared<DecodeBenchOptions>();
  add_model_options(app, *o);
  app.option_defaults()->group("Decoding");
  add_whole(app, "--batch", o->batch, 1, 1 << 20, "sequences that are read at once");
  add_whole(app, "--vocabulary", o->vocabulary, 1, 1 << 24,
            "kinds of tokens, which are drawn by chance");
  add_whole(app, "--prompt", o->prompt, 1, 1 << 24, "tokens that are cached before the first");
  add_bench_options(app, o->bench);
  add_profile(app, o->bench);
  add_device(app, o->bench.device);
  app.footer(
      "Every token reads all parameters, so the memory is the limit: how fast the\n"
      "processor can read it is measured in turns.\n\n"
      "Examples:\n"
      "  tete bench decode --attention talking_heads\n"
      "  tete bench decode --model gpt2 --vocabulary 50257 --context 1024");
  return [o, &app] { return bench_decoding(*o, app); };
}

}  // namespace tete
