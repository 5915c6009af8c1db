#include "tools/train_options.hpp"

#include <algorithm>

#include "tools/config.hpp"
#include "train/ranks.hpp"

namespace tete {

// ---- Options that make no sense ----

static void check_task(const TrainOptions& o) {
  const TrainOptions unset;
  const char* option = !o.text.empty()                  ? "TEXT"
                       : o.tokenizer != unset.tokenizer ? "--tokenizer"
                       : o.held_out != unset.held_out   ? "--held-out"
                                                        : nullptr;
  if (option) bad_input("--task ", o.task, " makes its own data: it takes no ", option);
}

const Task* fill_in(TrainOptions& o, CLI::App& app) {
  const Task* task = chosen_task(o.task);
  if (task) {
    check_task(o);
    // A model that is named has an attention and sizes of its own.
    const std::string shape =
        o.whole.empty() ? text("attention = 'multi_head'\n", task->sizes) : "";
    apply_config(app, text("--task ", task->name),
                 text(shape, "\ncontext = ", task->context, "\n", task_training,
                      "\nsteps = ", task->steps, "\n"));
  }
  if (o.task == masked_task) apply_config(app, "--task mlm", masked_training);
  return task;
}

void fill_in_shards(TrainOptions& o, CLI::App& app, bool by_launcher) {
  if (by_launcher)
    apply_config(app, "the launcher", text("shards = ", shards_for_ranks(o.loop.step.batch), "\n"));
}

void check_options(const TrainOptions& o, int ranks) {
  const StepOptions& step = o.loop.step;
  if (!(o.held_out > 0 && o.held_out < 1))
    bad_input("--held-out ", o.held_out, ": expected more than 0 and less than 1");
  if (!(step.dropout >= 0 && step.dropout < 1))
    bad_input("--dropout ", step.dropout, ": expected at least 0 and less than 1");
  if (step.shards > step.batch)
    bad_input("--shards ", step.shards, ": expected at most the samples of a step, ", step.batch);
  if (ranks > step.shards)
    bad_input("--shards ", step.shards, ": expected at least the number of ranks, ", ranks,
              ", as each computes shards of its own");
}

// ---- nanoGPT's options ----

std::vector<std::string> read_nanogpt(TrainOptions& o, CLI::App& app) {
  const NanoGpt& given = o.nanogpt;
  std::vector<std::string> sentences;
  if (given.lr_decay_iters && *given.lr_decay_iters != o.steps)
    bad_input("--lr_decay_iters ", *given.lr_decay_iters,
              ": expected the number of --steps, where every schedule ends: ", o.steps);
  if (!given.compile.empty())
    sentences.push_back("--compile is not needed: nothing is compiled when a run begins");
  if (given.lr_decay_iters)
    sentences.push_back("--lr_decay_iters is not needed: every schedule ends with --steps");
  if (!given.eval_iters) return sentences;
  const Index most = std::max<Index>(1, (1 << 20) / o.loop.step.batch);
  if (*given.eval_iters < 1 || *given.eval_iters > most)
    bad_input("--eval_iters ", *given.eval_iters, ": expected 1 to ", most);
  CLI::Option* samples = app.get_option("--eval-samples");
  samples->clear();  // the task's, or a configuration's
  samples->add_result(std::to_string(*given.eval_iters * o.loop.step.batch));
  samples->run_callback();
  sentences.push_back(text("--eval_iters ", *given.eval_iters, " is --eval-samples ",
                           o.loop.validation_samples, ": so many batches of ", o.loop.step.batch));
  return sentences;
}

// ---- Declaration ----

constexpr int64_t many = 1'000'000'000'000;

static void add_training_options(CLI::App& app, TrainOptions& o) {
  app.option_defaults()->group("Training");
  const auto rate = [&](const char* names, std::optional<double>& value, double high,
                        const char* what) {
    app.add_option(names, value, what)->type_name("X")->check(within(0.0, high));
  };
  StepOptions& step = o.loop.step;
  add_whole(app, "--steps,--max_iters", o.steps, 1, many, "steps of the whole run");
  add_whole(app, "--batch,--batch_size", step.batch, 1, 1 << 20, "sequences per step");
  app.add_option("--optimizer", o.optimizer, help_of(optimizers()))
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--schedule", o.schedule, help_of(schedules()) + " (default: the optimizer's)")
      ->type_name("NAME");
  rate("--learning-rate,--learning_rate", o.learning_rate, 100,
       "peak learning rate (default: the schedule's)");
  rate("--last-rate,--min_lr", o.last_rate, 100, "final learning rate of cosine");
  app.add_option("--warmup,--warmup_iters", o.warmup,
                 "steps of linear warm-up (cosine) or of constant rate (inverse_sqrt)")
      ->type_name("N")
      ->check(within<int64_t>(0, many));
  rate("--weight-decay,--weight_decay", o.weight_decay, 100, "weight decay of adam");
  rate("--clip,--grad_clip", o.clip, 1e12,
       "clip the gradient's global norm to X, 0: never (default: the optimizer's)");
  app.add_option("--dropout", step.dropout, "dropout rate")->type_name("X")->capture_default_str();
  add_precision(app, o.precision);
  add_recompute_blocks(app, step.recompute_blocks);
  add_whole(
      app, "--shards", step.shards, 1, 1 << 20,
      "split each batch into N parts, reduced in a fixed order: the bits depend on N, not on the "
      "number of processes (under mpirun or srun: the largest of 1, 2, 4, 8, 24 that is at most "
      "--batch)");
  app.add_flag("--send-bf16", o.send_bf16,
               "ranks send gradients as bfloat16: half the bytes, and bits that depend on their "
               "number");
  app.add_flag(
      "--shard-optimizer", o.shard_optimizer,
      "each rank keeps and updates a part of adam's state: less memory, half as many bytes "
      "more to send, the same bits");
  add_list(app, "--allow-zero-grad", step.allow_zero_grad,
           "parameters whose gradient may be zero, * for any letters")
      ->type_name("NAME");
  app.add_option("--seed", step.seed, "seed of parameters, data order and dropout")
      ->type_name("N")
      ->capture_default_str();
}

static void add_run_options(CLI::App& app, TrainOptions& o) {
  app.option_defaults()->group("Run");
  LoopOptions& loop = o.loop;
  app.add_option("--out,--out_dir", loop.folder,
                 "the run's folder: checkpoints, metrics.jsonl (default: runs/MODEL, or runs/TASK)")
      ->type_name("DIR");
  app.add_flag(
      "--report", o.report,
      "a page in the folder to watch the run with, report.html; its numbers as CSV and for "
      "TensorBoard; norms of each parameter and samples in the log");
  app.add_flag("--resume", o.resume, "go on with the run in that folder")->configurable(false);
  add_whole(app, "--log-every,--log_interval", loop.log_every, 1, many,
            "steps between lines of metrics.jsonl");
  add_whole(app, "--eval-every,--eval_interval", loop.validate_every, 0, many,
            "steps between validations (0: at the end only)");
  add_whole(app, "--eval-samples", loop.validation_samples, 1, 1 << 20,
            "sequences of a validation");
  add_whole(app, "--save-every", loop.save_every, 0, many,
            "steps between checkpoints (0: at the end only)");
  add_whole(app, "--keep", loop.keep, 1, 1'000'000, "newest checkpoints kept, besides the best");
  app.add_option("--peer-timeout", o.peer_timeout,
                 "seconds without a sign of another rank until it counts as lost (default: 60, or "
                 "ten steps if that is more)")
      ->type_name("X")
      ->check(within(0.1, 1e6))
      ->configurable(false);
  add_threads(app, o.threads);
  add_device(app, o.device);
  app.add_flag("--check-device", o.check_device,
               "first compare each operation of a step on the device with the processor's")
      ->configurable(false);
  app.add_flag("--json", o.json, "JSON lines on standard output instead of progress");
  add_list(app, "--config", o.config,
           "these options by their long names, in JSON (a run's config.json) or TOML; the command "
           "line wins")
      ->type_name("FILE")
      ->configurable(false);
}

// No run keeps them.
static void add_nanogpt_options(CLI::App& app, NanoGpt& o) {
  app.option_defaults()->group("nanoGPT's")->configurable(false);
  app.add_option("--compile", o.compile, "not needed")->type_name("NAME");
  app.add_option("--eval_iters", o.eval_iters, "batches of a validation, for --eval-samples")
      ->type_name("N")
      ->excludes("--eval-samples");
  app.add_option("--lr_decay_iters", o.lr_decay_iters, "as --steps; not needed")->type_name("N");
}

void add_train_options(CLI::App& app, TrainOptions& o) {
  take_words(app.add_option("TEXT,--text", o.text,
                            "files to learn from (default: this program's own sources)"))
      ->group("Data");
  app.option_defaults()->group("Data");
  app.add_option("--task", o.task,
                 task_help() +
                     ". All but text and mlm make their own data, and have sizes and rates "
                     "of their own")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--tokenizer", o.tokenizer, "a token is a Unicode char or a byte")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--held-out", o.held_out,
                 "share of the text, from its end, held out for validation")
      ->type_name("X")
      ->capture_default_str();
  add_model_options(app, o);
  add_training_options(app, o);
  add_run_options(app, o);
  add_nanogpt_options(app, o.nanogpt);
  app.footer(
      "Examples:\n"
      "  tete train book.txt --attention talking_heads --heads 8 --out runs/book\n"
      "  tete train --resume --out runs/book\n"
      "  tete train book.txt --attention mine.tete --dim h_k=4 --with t5_bias\n"
      "  tete train shakespeare.txt --style gpt2 --optimizer adam --dropout 0.1\n"
      "  tete train --task induction\n"
      "  tete train --task reverse --attention-cross talking_heads\n"
      "  tete train --task reverse --model t5 --layers 1 --heads 4 --d-model 64\n"
      "  tete train book.txt --task mlm --model bert --layers 2 --heads 4 --d-model 64\n"
      "nanoGPT's spellings work too: --n_layer --n_head --n_embd --block_size\n"
      "--batch_size --learning_rate --max_iters --out_dir --eval_interval.");
}

}  // namespace tete
