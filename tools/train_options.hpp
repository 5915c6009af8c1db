// The options of `tete train`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/options.hpp"
#include "tools/sites.hpp"

namespace tete {

// Options of nanoGPT that say nothing here, or say it in another unit.
struct NanoGpt {
  std::string compile;
  std::optional<int64_t> eval_iters, lr_decay_iters;
};

struct TrainOptions : ModelOptions {
  std::string task = "text", tokenizer = "char";
  std::vector<std::string> text, config;
  double held_out = 0.1;
  Index batch = 12;
  int64_t steps = 2000;
  std::string optimizer = "adafactor";
  std::optional<std::string> schedule;
  std::optional<double> learning_rate, last_rate, weight_decay, clip;
  std::optional<int64_t> warmup;
  double dropout = 0;
  std::string precision = "f32";
  bool recompute_blocks = false;
  int shards = 1;
  std::string out;
  bool resume = false, report = false;
  int64_t log_every = 10, eval_every = 250, save_every = 500;
  Index eval_samples = 2560;
  int keep = 2;
  std::vector<std::string> allow_zero_grad;
  uint64_t seed = 0;
  int threads = 0;
  std::string device = "cpu";
  bool json = false;
  NanoGpt nanogpt = {};
};
void add_train_options(CLI::App& app, TrainOptions& options);

// Sets the options that neither the command line nor a configuration said: those of the task, then
// those of the style. Returns the task, or nullptr for a text. Fails where they contradict it.
const Task* fill_in(TrainOptions& options, CLI::App& app);
// Does what nanoGPT's options ask for; returns a sentence for each that is not needed or has
// another name. Fails (input) where they ask for what cannot be had.
std::vector<std::string> read_nanogpt(TrainOptions& options, CLI::App& app);
// Refuses numbers that make no sense, in one sentence that names the option.
void check_options(const TrainOptions& options);

}  // namespace tete
