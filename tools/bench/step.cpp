// tete bench step: a step of training a language model: forward, gradient, clipping, the optimizer.
#include "train/step.hpp"

#include <iostream>
#include <nlohmann/json.hpp>

#include "core/threads.hpp"
#include "tools/bench/nouns.hpp"
#include "tools/bench/profile.hpp"
#include "tools/bench/report.hpp"
#include "tools/config.hpp"
#include "tools/json_number.hpp"
#include "tools/model_cost.hpp"
#include "tools/model_options.hpp"
#include "train/machine.hpp"

namespace tete {

using nlohmann::ordered_json;

namespace {

struct StepBenchOptions : ModelOptions {
  BenchOptions bench;
  std::string optimizer = "adam";
  Index batch = 12, vocabulary = 65;
  double dropout = 0;
  std::string precision = "f32";
  bool recompute_blocks = false;
};

// Tokens by chance: their time is that of any text.
class RandomTokens : public Data {
 public:
  RandomTokens(Index vocabulary, Index context) : vocabulary_(vocabulary), context_(context) {}
  Batch batch(Key key, Index first, Index count) const override {
    const auto tokens = [&](std::string_view name) {
      std::vector<int64_t> drawn;
      for (Index i = first * context_; i < (first + count) * context_; ++i)
        drawn.push_back(static_cast<int64_t>(uniform_below(key.fold(name), static_cast<uint64_t>(i),
                                                           static_cast<uint64_t>(vocabulary_))));
      return Tensor::of<int64_t>({count, context_}, std::span<const int64_t>(drawn));
    };
    return {tokens("input"), tokens("target"), first};
  }
  Batch validation_batch(Key key, Index first, Index count) const override {
    return batch(key, first, count);
  }
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  Index vocabulary_, context_;
  std::string fingerprint_ = "random";
};

// nanoGPT's recipe for a CPU, where no other model is named.
constexpr const char* recipe = "attention = 'multi_head'\nstyle = 'gpt2'\n";

// ---- What is told ----

// Events of a step beside computing, once all memory has been asked for.
struct Steady {
  int64_t loops = 0;       // shared among threads
  size_t allocations = 0;  // of memory for tensors, from the system

  static constexpr int steps = 4;
  static Steady so_far(Backend& on) { return {shared_loops(), memory_use(on).system_allocations}; }
  static Steady of(const std::function<void()>& step, Backend& on) {
    for (int i = 0; i < steps; ++i) step();
    const Steady before = so_far(on);
    for (int i = 0; i < steps; ++i) step();
    const Steady after = so_far(on);
    return {(after.loops - before.loops) / steps, after.allocations - before.allocations};
  }
};

ordered_json to_json(const StepBenchOptions& o, const Model& model, const Cost& cost,
                     const Steady& steady, const Bench& bench) {
  const Measured& row = bench.rows()[0];
  ordered_json json = {{"bench", "step"},
                       {"model", described(o.model)},
                       {"attention", o.attention},
                       {"layers", or_null(size_of(model, "l"))},
                       {"heads", or_null(size_of(model, "h"))},
                       {"d_model", or_null(size_of(model, "d_X"))},
                       {"context", o.model.context},
                       {"batch", o.batch},
                       {"vocabulary", o.vocabulary},
                       {"style", o.style},
                       {"optimizer", o.optimizer},
                       {"dropout", o.dropout},
                       {"precision", o.precision},
                       {"recompute_blocks", o.recompute_blocks},
                       {"parameters", model.params().element_total()},
                       {"multiplies", o.batch * cost.total.multiplies},
                       {"visible_multiplies", o.batch * cost.total.visible}};
  json.update(to_json(row));
  json["ms_per_step"] = 1e3 * row.time.median();
  json["tokens_per_s"] = static_cast<double>(o.batch * o.model.context) / row.time.median();
  json["loops_per_step"] = steady.loops;
  json["steady_allocations"] = steady.allocations;
  json["peak_rss_mb"] = resident_mb(row);
  json.update(bench.machine());
  return json;
}

void print(const StepBenchOptions& o, const Model& model, const Steady& steady,
           const Bench& bench) {
  const Measured& row = bench.rows()[0];
  std::printf("%s, %scontext %lld, batch %lld, %s, %s, %s parameters\n\n",
              described(o.model).c_str(), shape_of(model).c_str(),
              static_cast<long long>(o.model.context), static_cast<long long>(o.batch),
              o.optimizer.c_str(), o.precision.c_str(),
              count_text(static_cast<double>(model.params().element_total())).c_str());
  bench.print();
  std::printf(
      "tokens  %s a second\n",
      count_text(static_cast<double>(o.batch * o.model.context) / row.time.median()).c_str());
  std::printf("memory  %s at the peak of the process, %s for its tensors\n",
              size_text(row.resident).c_str(), size_text(row.tensor_bytes).c_str());
  std::printf("threads share %lld loops a step; %zu allocations in four steps\n",
              static_cast<long long>(steady.loops), steady.allocations);
}

// ---- The step ----

// Parameters and gradients are read and written, and so is the optimizer's state.
double bytes_of(const Optimizer& optimizer, Index parameters) {
  double numbers = 4 * static_cast<double>(parameters);
  for (const NamedTensor& tensor : optimizer.state)
    numbers += 2 * static_cast<double>(tensor.value.size());
  return numbers * sizeof(float);
}

// A model in training on one device, a step at a time.
class Training {
 public:
  Training(const StepBenchOptions& o, const Model& model, Backend& device)
      : objective_{model.params(),
                   [&model](const Forward& forward, const Batch& batch) -> LossSum {
                     const Loss loss =
                         model.loss(forward, inputs_of(model.kind(), batch), batch.target);
                     return {loss.sum, loss.tokens};
                   }},
        data_(o.vocabulary, o.model.context),
        row_(find_optimizer(o.optimizer)),
        optimizer_(row_.make(model.params().specs(), Dtype::f32, device)),
        // A gradient that is zero is looked for in the first steps only: no step of a long run
        // does.
        stepper_(objective_, data_, *optimizer_, single_process(),
                 {.batch = o.batch,
                  .clip = row_.clip,
                  .dropout = o.dropout,
                  .products = products_of(o.precision, device),
                  .recompute_blocks = o.recompute_blocks,
                  .allow_zero_grad = {"*"}}),
        values_(model.params().initial_values(Key(0).fold("init"), Dtype::f32, device)) {}

  void step() { stepper_.run(step_++, values_, 1e-3); }
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  Objective objective_;
  RandomTokens data_;
  const OptimizerRow& row_;
  std::unique_ptr<Optimizer> optimizer_;
  Stepper stepper_;
  Tensors values_;
  int64_t step_ = 0;
};

Profile profile_of(const StepBenchOptions& o, const Model& model) {
  ClockedProcessor device;
  Training training(o, model, device);
  return profile_of(
      device, [&] { training.step(); }, o.bench.repeats);
}

int bench_training(StepBenchOptions& o, CLI::App& app) {
  if (!(o.dropout >= 0 && o.dropout < 1))
    bad_input("--dropout ", o.dropout, ": expected at least 0 and less than 1");
  if (o.whole.empty()) apply_config(app, "tete bench step", recipe);
  read_model(o, app, false);
  find_optimizer(o.optimizer);
  use_threads(o.bench.threads);
  const DeviceInUse device(o.bench.device);

  const Model model = make_model(o.model, o.vocabulary);
  const Cost cost = cost_of(model, o.model.context);
  const Index parameters = model.params().element_total();
  check_memory("this step",
               static_cast<size_t>(o.batch) * cost.tiled_bytes +
                   4 * sizeof(float) * static_cast<size_t>(parameters),
               *device);
  Training training(o, model, *device);
  const auto call = [&] { training.step(); };
  Bench bench(o.bench, Dtype::f32, *device);
  const Work work{
      .name = described(o.model),
      .call = call,
      .flops = 6 * static_cast<double>(o.batch) * static_cast<double>(cost.total.visible),
      .bytes = bytes_of(training.optimizer(), parameters)};
  bench.add(work);
  const Steady steady = Steady::of(call, *device);
  const std::optional<Scaling> scaling =
      o.bench.scaling ? std::optional(bench.scaling(work)) : std::nullopt;
  const std::optional<Profile> profile =
      o.bench.profile ? std::optional(profile_of(o, model)) : std::nullopt;
  if (o.bench.json) {
    ordered_json json = to_json(o, model, cost, steady, bench);
    if (scaling) json["scaling"] = to_json(*scaling);
    if (profile) json["profile"] = to_json(*profile);
    std::cout << json.dump(2) << "\n";
  } else {
    print(o, model, steady, bench);
    if (scaling) print(*scaling);
    if (profile) print(*profile);
  }
  return 0;
}

}  // namespace

Run bench_step(CLI::App& app) {
  auto o = std::make_shared<StepBenchOptions>();
  add_model_options(app, *o);
  app.option_defaults()->group("Training");
  add_whole(app, "--batch,--batch_size", o->batch, 1, 1 << 20, "sequences a step");
  add_whole(app, "--vocabulary", o->vocabulary, 1, 1 << 24,
            "kinds of tokens, which are drawn by chance");
  app.add_option("--optimizer", o->optimizer, "adafactor or adam")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--dropout", o->dropout, "rate")->type_name("X")->capture_default_str();
  add_precision(app, o->precision);
  add_device(app, o->bench.device);
  add_recompute_blocks(app, o->recompute_blocks);
  add_bench_options(app, o->bench);
  add_scaling(app, o->bench);
  add_profile(app, o->bench);
  app.footer(
      "The model that tete train makes of these options; as it stands, nanoGPT's recipe\n"
      "for a CPU. Bytes are those of parameters, gradients and the optimizer's state, read\n"
      "and written once.\n\n"
      "Examples:\n"
      "  tete bench step --attention talking_heads\n"
      "  tete bench step --layers 6 --heads 6 --d-model 384 --context 256 --batch 16");
  return [o, &app] { return bench_training(*o, app); };
}

}  // namespace tete
