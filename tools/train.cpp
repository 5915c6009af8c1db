// tete train: a model trained on a task.
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/threads.hpp"
#include "tools/lesson.hpp"
#include "tools/live_report.hpp"
#include "train/checkpoint.hpp"
#include "train/loop.hpp"
#include "train/machine.hpp"

namespace tete {

using nlohmann::ordered_json;

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
  bool json = false;
};

// ---- Options that make no sense ----

static void in_range(const char* option, double value, double low, double high) {
  if (!(value >= low && value <= high))
    bad_input(option, " ", value, ": expected ", low, " to ", high);
}

// 0 <= value < 1
static void is_fraction(const char* option, double value) {
  if (!(value >= 0 && value < 1))
    bad_input(option, " ", value, ": expected at least 0 and less than 1");
}

static void check_task(const TrainOptions& o) {
  const TrainOptions unset;
  const char* option = !o.text.empty()                  ? "TEXT"
                       : o.tokenizer != unset.tokenizer ? "--tokenizer"
                       : o.held_out != unset.held_out   ? "--held-out"
                                                        : nullptr;
  if (option) bad_input("--task ", o.task, " makes its own data: it takes no ", option);
}

// What nothing else said, the task says.
static const Task* read_task(const TrainOptions& o, CLI::App& app) {
  const Task* task = chosen_task(o.task);
  if (!task) return nullptr;
  check_task(o);
  apply_config(app, text("--task ", task->name),
               text(task->model, "\n", task_training, "\nsteps = ", task->steps, "\n"));
  return task;
}

static void check_options(const TrainOptions& o) {
  constexpr double many = 1e12;
  is_fraction("--held-out", o.held_out);
  in_range("--batch", static_cast<double>(o.batch), 1, 1 << 20);
  in_range("--steps", static_cast<double>(o.steps), 1, many);
  is_fraction("--dropout", o.dropout);
  in_range("--shards", o.shards, 1, static_cast<double>(o.batch));
  if (o.learning_rate) in_range("--learning-rate", *o.learning_rate, 0, 100);
  if (o.last_rate) in_range("--last-rate", *o.last_rate, 0, 100);
  if (o.weight_decay) in_range("--weight-decay", *o.weight_decay, 0, 100);
  if (o.clip) in_range("--clip", *o.clip, 0, many);
  if (o.warmup) in_range("--warmup", static_cast<double>(*o.warmup), 0, many);
  in_range("--log-every", static_cast<double>(o.log_every), 1, many);
  in_range("--eval-every", static_cast<double>(o.eval_every), 0, many);
  in_range("--eval-samples", static_cast<double>(o.eval_samples), 1, 1 << 20);
  in_range("--save-every", static_cast<double>(o.save_every), 0, many);
  in_range("--keep", o.keep, 1, 1e6);
}

// ---- From options to what the loop takes ----

// Options whose defaults are the style's.
static bool follows_style(const std::string& key) {
  return key == "activation" || key == "bias" || key == "init";
}

static Tokenizer::Unit unit_of(const std::string& name) {
  if (name == "char") return Tokenizer::Unit::characters;
  if (name == "byte") return Tokenizer::Unit::bytes;
  const std::string names[] = {"char", "byte"};
  bad_input("--tokenizer ", name, ": expected char or byte", suggestion(name, names));
}

static Schedule schedule_from(const TrainOptions& o) {
  Schedule s = schedule_of(o.schedule.value_or(find_optimizer(o.optimizer).schedule), o.steps);
  if (o.warmup) s.start = *o.warmup;
  // The rate that inverse_sqrt starts with is factor / √start.
  if (o.learning_rate && s.name == "inverse_sqrt")
    s.rate = *o.learning_rate * std::sqrt(static_cast<double>(std::max<int64_t>(1, s.start)));
  else if (o.learning_rate) s.rate = *o.learning_rate;
  if (o.last_rate) s.last_rate = *o.last_rate;
  return s;
}

static std::unique_ptr<Optimizer> optimizer_from(const TrainOptions& o, const ParamList& params) {
  const OptimizerRow& row = find_optimizer(o.optimizer);
  if (!o.weight_decay) return row.make(params.specs(), Dtype::f32);
  if (o.optimizer != "adam") bad_input("--weight-decay is an option of adam, not of ", o.optimizer);
  return adam(params.specs(), {.weight_decay = *o.weight_decay});
}

static ordered_json configuration(const TrainOptions& o, const Schedule& s, double clip) {
  return {{"task", o.task},
          {"model", to_json(o.model)},
          {"tokenizer", o.tokenizer},
          {"training",
           {{"batch", o.batch},
            {"steps", o.steps},
            {"optimizer", o.optimizer},
            {"weight_decay", o.weight_decay ? ordered_json(*o.weight_decay) : ordered_json()},
            {"schedule", s.name},
            {"rate", s.rate},
            {"last_rate", s.last_rate},
            {"start", s.start},
            {"decay", s.decay},
            {"clip", clip},
            {"dropout", o.dropout},
            {"precision", o.precision},
            {"shards", o.shards},
            {"held_out", o.held_out},
            {"seed", o.seed}}}};
}

static LoopOptions loop_options(const TrainOptions& o) {
  LoopOptions loop;
  loop.schedule = schedule_from(o);
  loop.step.batch = o.batch;
  loop.step.shards = o.shards;
  loop.step.clip = o.clip.value_or(find_optimizer(o.optimizer).clip);
  loop.step.dropout = o.dropout;
  loop.step.products = products_of(o.precision);
  loop.step.recompute_blocks = o.recompute_blocks;
  loop.step.seed = o.seed;
  loop.step.allow_zero_grad = o.allow_zero_grad;
  loop.folder = o.out;
  if (o.resume) loop.resume = o.out;
  loop.log_every = o.log_every;
  loop.validate_every = o.eval_every;
  loop.validation_samples = o.eval_samples;
  loop.save_every = o.save_every;
  loop.keep = o.keep;
  loop.config = configuration(o, loop.schedule, loop.step.clip).dump();
  loop.program = program_version();
  return loop;
}

// ---- Resuming ----

// The configuration of the run in a folder, which is written before anything else of a run.
static std::string run_config(const std::string& folder) {
  const std::string path = folder + "/" + config_name;
  if (std::filesystem::exists(path)) return path;
  if (saved_steps(folder).empty())
    bad_input("there is no run to resume in ", folder, ": it has no ", config_name,
              ", with which a run begins; give the options of the run again, without --resume");
  bad_input("cannot resume the run in ", folder, ": its ", config_name,
            ", which says what the run is, is missing; put it back, or begin in another folder");
}

// A run that was stopped before its first checkpoint begins again.
static void begin_or_resume(TrainOptions& o, CLI::App& app) {
  if (!o.resume) return;
  read_config(app, run_config(o.out));
  o.resume = !saved_steps(o.out).empty();
}

// A run goes on with the model that it began with.
static void check_same_model(const TrainOptions& o) {
  const std::vector<int64_t> steps = saved_steps(o.out);
  if (steps.empty()) return;
  const std::string path = o.out + "/" + checkpoint_name(steps.front());
  ordered_json then;
  try {
    then = ordered_json::parse(read_state(Safetensors(path)).config);
  } catch (const std::exception&) {
    return;  // the loop knows what to do with a checkpoint that is broken
  }
  if (!then.is_object() || !then.contains("model") || !then["model"].is_object()) return;
  const ordered_json now = to_json(o.model);
  ordered_json both = then["model"];
  both.update(now);
  for (const auto& [key, either] : both.items()) {
    const ordered_json began = then["model"].value(key, ordered_json());
    const ordered_json value = now.value(key, ordered_json());
    if (began == value) continue;
    const bool a_text = key == "attention" || key == "with" || key == "sites";
    bad_input("'", key == "sites" ? "attention" : key, "' is not what the run in ", o.out,
              " began with", key == "sites" ? " at every site" : "",
              a_text ? "" : text(": ", value.dump(), ", but there ", began.dump()));
  }
}

// ---- The run's folder keeps what was asked for, as a configuration file ----

// A value as TOML writes it. A file is given by its whole path: the folder may be read from
// anywhere.
static std::string toml_value(const std::string& setting, bool may_be_path) {
  const size_t at = may_be_path ? file_part(setting) : 0;
  const std::string before = setting.substr(0, at), value = setting.substr(at);
  const bool is_number = before.empty() && !value.empty() &&
                         value.find_first_not_of("0123456789.") == std::string::npos;
  if (is_number) return value;
  std::error_code ignored;
  const bool is_file = may_be_path && std::filesystem::is_regular_file(value, ignored);
  const std::string shown =
      before + (is_file ? std::filesystem::absolute(value).lexically_normal().string() : value);
  std::string out = "\"";
  for (char c : shown) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Every option that has a value.
static std::string config_toml(const CLI::App& app) {
  const std::string left_out[] = {"help", "config", "resume", "json", "out", "threads"};
  std::string lines = "# What this run was asked for. tete train --config FILE does it again.\n";
  for (const CLI::Option* option : app.get_options()) {
    const std::string key = option->get_lnames().empty() ? "" : option->get_lnames().front();
    const bool is_flag = option->get_items_expected_max() == 0;
    if (std::find(std::begin(left_out), std::end(left_out), key) != std::end(left_out)) continue;
    std::string value;
    if (is_flag && option->count() > 0) {
      value = option->as<bool>() ? "true" : "false";
    } else if (option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll &&
               option->count() > 0) {
      for (const std::string& each : option->results())
        value += (value.empty() ? "[" : ", ") + toml_value(each, names_files(key));
      value += "]";
    } else if (option->count() > 0) {
      value = toml_value(option->results().back(), names_files(key));
    } else if (!is_flag && !option->get_default_str().empty() && !follows_style(key)) {
      value = toml_value(option->get_default_str(), false);
    }
    if (!value.empty()) lines += key + " = " + value + "\n";
  }
  return lines;
}

// ---- What is said while it trains ----

static ordered_json number(double x) { return std::isfinite(x) ? ordered_json(x) : ordered_json(); }

class JsonLines : public Reporter {
 public:
  void step(const Progress& p) override {
    say({{"event", "step"},
         {"step", p.step},
         {"steps", p.steps},
         {"tokens", p.tokens},
         {"loss", number(p.loss)},
         {"validation_loss", number(p.validation_loss)},
         {"acc", number(p.accuracy)},
         {"exact_match", number(p.exact_match)},
         {"lr", p.rate},
         {"grad_norm", number(p.grad_norm)},
         {"tokens_per_s", number(p.tokens_per_second)},
         {"seconds", p.seconds}});
  }
  void saved(const std::string& path, int64_t step) override {
    say({{"event", "saved"}, {"step", step}, {"path", path}});
  }
  void resumed(const std::string& path, int64_t step) override {
    say({{"event", "resumed"}, {"step", step}, {"path", path}});
  }
  void warning(const std::string& sentence) override {
    say({{"event", "warning"}, {"text", sentence}});
  }
  static void say(const ordered_json& line) {
    std::cout << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
  }
};

static RunSize run_size(const TrainOptions& o, const Lesson& lesson, const Optimizer& optimizer) {
  RunSize size;
  size.groups = parameter_groups(lesson.params.specs());
  size.memory.parameters = size.memory.gradients = 4 * lesson.params.element_total();
  for (const NamedTensor& tensor : optimizer.state)
    size.memory.optimizer += size_of(tensor.value.dtype()) * tensor.value.size();
  // Of each sample of a shard.
  size.memory.activations =
      static_cast<size_t>((o.batch + o.shards - 1) / o.shards) * lesson.activations;
  // Of one block instead of all; what else is kept, the inputs of blocks, is little beside it.
  if (o.recompute_blocks)
    size.memory.activations /= static_cast<size_t>(std::max<Index>(1, o.model.layers));
  size.memory.text = lesson.text;
  size.tokens_per_step = o.batch * o.model.context;
  return size;
}

static std::string percent(double part) {
  std::ostringstream shown;
  shown.precision(3);
  shown << 100 * part << "%";
  return shown.str();
}

// "talking_heads, 4 layers, 128 wide, 824,064 parameters"
static std::string model_line(const TrainOptions& o, const Lesson& lesson) {
  return text(o.task == "text" ? "" : o.task + ": ", o.model.attention.name, ", ",
              counted(o.model.layers, "layer"), ", ", o.model.d_model, " wide, ",
              lesson.params.element_total(), " parameters");
}

static void say_result(const TrainOptions& o, const LoopResult& result) {
  if (o.json) {
    JsonLines::say({{"event", "end"},
                    {"stopped", result.stopped},
                    {"step", result.step},
                    {"loss", number(result.loss)},
                    {"validation_loss", number(result.validation_loss)},
                    {"acc", number(result.accuracy)},
                    {"exact_match", number(result.exact_match)},
                    {"ms_per_step", number(result.ms_per_step)},
                    {"checkpoint", result.checkpoint}});
  } else if (result.stopped) {
    std::cout << "Stopped at step " << result.step << " of " << o.steps
              << ", as asked. To go on: tete train --resume --out " << o.out << std::endl;
  } else {
    std::ostringstream line;
    line.precision(4);
    line << "Done: " << result.step << " steps";
    if (std::isfinite(result.validation_loss))
      line << ", validation loss " << result.validation_loss;
    if (std::isfinite(result.accuracy))
      line << ", " << percent(result.accuracy) << " of the tokens right and "
           << percent(result.exact_match) << " of the whole answers";
    if (result.ms_per_step > 0) line << ", " << result.ms_per_step << " ms a step";
    std::cout << line.str() << "; the model is " << result.checkpoint << std::endl;
  }
}

// ---- The verb ----

static int train(TrainOptions& o, CLI::App& app) {
  for (auto path = o.config.rbegin(); path != o.config.rend(); ++path) read_config(app, *path);
  if (o.out.empty())
    o.out =
        "runs/" + (o.task == "text" ? std::filesystem::path(o.attention).stem().string() : o.task);
  begin_or_resume(o, app);
  const Task* task = read_task(o, app);
  check_options(o);
  o.model.encoder = task && task->encoder;
  read_model(o, app);
  const ChosenSites sites = choose_sites(o.model);
  if (o.resume) check_same_model(o);
  use_threads(o.threads);

  const Machine machine = inspect_machine();  // with the memory that is free before a text is read
  const LearnedText learned{o.text, unit_of(o.tokenizer), o.held_out};
  const Lesson lesson =
      task ? task_lesson(*task, o.model, sites) : text_lesson(o.model, sites, learned);
  const std::unique_ptr<Optimizer> optimizer = optimizer_from(o, lesson.params);
  LoopOptions options = loop_options(o);
  options.config_file = config_toml(app);
  if (o.report) options.norms = true, options.write = lesson.write;

  const RunSize size = run_size(o, lesson, *optimizer);
  if (size.memory.total() > machine.memory && machine.memory > 0)
    fail(Kind::resource, "this run needs about ", size_text(size.memory.total()),
         " of memory, but ", size_text(machine.memory), " are free");
  if (!o.json) {
    std::cerr << start_block(machine, size);
    for (const std::string& warning : speed_warnings(machine))
      std::cerr << "warning: " << warning << "\n";
    std::cerr << std::flush;
  }

  Tensors values = lesson.params.initial_values(Key(o.seed).fold("init"));
  const Objective objective{lesson.params, lesson.loss};
  ProgressLine line;
  JsonLines lines;
  Reporter& told = o.json ? static_cast<Reporter&>(lines) : line;
  LiveReport report(told, o.out, model_line(o, lesson), program_version());
  if (!o.resume)
    for (const std::string& sentence : start_warnings(o.model, sites)) told.warning(sentence);
  const StopSignals signals;
  say_result(o, tete::train(objective, values, *optimizer, *lesson.data, lesson.tokenizer, options,
                            o.report ? report : told));
  return 0;
}

static void add_training_options(CLI::App& app, TrainOptions& o) {
  app.option_defaults()->group("Training");
  app.add_option("--steps,--max_iters", o.steps, "steps of the whole run")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--batch,--batch_size", o.batch, "sequences a step")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--optimizer", o.optimizer, "adafactor (as in T5) or adam (decoupled decay)")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--schedule", o.schedule,
                 "inverse_sqrt, constant or cosine (default: the optimizer's)")
      ->type_name("NAME");
  app.add_option("--learning-rate,--learning_rate", o.learning_rate,
                 "the largest learning rate of the run (default: the schedule's)")
      ->type_name("X");
  app.add_option("--last-rate,--min_lr", o.last_rate, "where cosine ends")->type_name("X");
  app.add_option("--warmup,--warmup_iters", o.warmup,
                 "steps of warm-up (cosine) or of constant rate (inverse_sqrt)")
      ->type_name("N");
  app.add_option("--weight-decay,--weight_decay", o.weight_decay, "of adam")->type_name("X");
  app.add_option("--clip,--grad_clip", o.clip,
                 "limit of the gradient's norm, 0: none (default: the optimizer's)")
      ->type_name("X");
  app.add_option("--dropout", o.dropout, "rate")->type_name("X")->capture_default_str();
  add_precision(app, o.precision);
  add_recompute_blocks(app, o.recompute_blocks);
  app.add_option("--shards", o.shards,
                 "logical shards of a step's batch: what the bits depend on, instead of processes")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--allow-zero-grad", o.allow_zero_grad,
                 "parameters whose gradient may be zero, * for any letters; may be repeated")
      ->type_name("NAME");
  app.add_option("--seed", o.seed, "of parameters, data order and dropout")
      ->type_name("N")
      ->capture_default_str();
}

static void add_run_options(CLI::App& app, TrainOptions& o) {
  app.option_defaults()->group("Run");
  app.add_option(
         "--out,--out_dir", o.out,
         "the run's folder: checkpoints, metrics.jsonl (default: runs/ATTENTION, or runs/TASK)")
      ->type_name("DIR");
  app.add_flag(
      "--report", o.report,
      "a page in the folder to watch the run with, report.html; its numbers as CSV and for "
      "TensorBoard; norms of each parameter and samples in the log");
  app.add_flag("--resume", o.resume, "go on with the run in that folder");
  app.add_option("--log-every,--log_interval", o.log_every, "steps between lines of metrics.jsonl")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--eval-every,--eval_interval", o.eval_every,
                 "steps between validations (0: at the end only)")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--eval-samples", o.eval_samples, "sequences of a validation")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--save-every", o.save_every, "steps between checkpoints (0: at the end only)")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--keep", o.keep, "newest checkpoints kept, besides the best")
      ->type_name("N")
      ->capture_default_str();
  add_threads(app, o.threads);
  app.add_flag("--json", o.json, "JSON lines on standard output instead of progress");
  app.add_option("--config", o.config,
                 "TOML with these options by their long names; the command line wins; may be "
                 "repeated")
      ->type_name("FILE");
}

Run train_verb(CLI::App& app) {
  auto o = std::make_shared<TrainOptions>();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("TEXT,--text", o->text,
                 "files to learn from (default: this program's own sources)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Data");
  app.option_defaults()->group("Data");
  app.add_option("--task", o->task,
                 task_help() + ". A task makes its own data, and has sizes and rates of its own")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--tokenizer", o->tokenizer, "a token is a Unicode char or a byte")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--held-out", o->held_out, "the part at the end that validation takes")
      ->type_name("X")
      ->capture_default_str();
  add_model_options(app, *o);
  add_training_options(app, *o);
  add_run_options(app, *o);
  for (const char* list : {"--config", "--allow-zero-grad"})
    app.get_option(list)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->expected(1)
        ->allow_extra_args(false);
  app.footer(
      "Examples:\n"
      "  tete train book.txt --attention talking_heads --heads 8 --out runs/book\n"
      "  tete train --resume --out runs/book\n"
      "  tete train book.txt --attention mine.tete --dim h_k=4 --with t5_bias\n"
      "  tete train shakespeare.txt --style gpt2 --optimizer adam --dropout 0.1\n"
      "  tete train --task induction\n"
      "  tete train --task reverse --attention-cross talking_heads\n"
      "nanoGPT's spellings work too: --n_layer --n_head --n_embd --block_size\n"
      "--batch_size --learning_rate --max_iters --out_dir --eval_interval.");
  return [o, &app] { return train(*o, app); };
}

}  // namespace tete
