// The options of `tete train`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/model_options.hpp"
#include "tools/options.hpp"
#include "train/loop.hpp"

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
  int64_t steps = 2000;
  std::string optimizer = "adafactor";
  std::optional<std::string> schedule;
  std::optional<double> learning_rate, last_rate, weight_decay, clip;
  std::optional<int64_t> warmup;
  std::string precision = "f32";
  LoopOptions loop = {};  // its `folder` is --out
  bool resume = false, report = false, json = false, send_bf16 = false, shard_optimizer = false;
  bool check_device = false;
  double peer_timeout = 0;
  int threads = 0;
  DeviceOptions device;
  NanoGpt nanogpt = {};
};
void add_train_options(CLI::App& app, TrainOptions& options);

// Sets the task's options where neither the command line nor a configuration said others. Returns
// the task, or nullptr for a text. Fails where they contradict it.
const Task* fill_in(TrainOptions& options, CLI::App& app);
// Does what nanoGPT's options ask for; returns a sentence for each that is not needed or has
// another name. Fails (input) where they ask for what cannot be had.
std::vector<std::string> read_nanogpt(TrainOptions& options, CLI::App& app);
// Reads the configurations that are named, and returns the run's folder: --out, or what follows
// from the model or task.
std::string run_folder(TrainOptions& options, CLI::App& app);
// Under a launcher, --shards follows from the batch where nothing was said.
void fill_in_shards(TrainOptions& options, CLI::App& app, bool by_launcher);
// Refuses numbers that make no sense, in one sentence that names the option.
void check_options(const TrainOptions& options, int ranks = 1);

}  // namespace tete
