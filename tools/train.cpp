// tete train: a model trained on a task.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/check/compared_device.hpp"
#include "core/threads.hpp"
#include "core/utf8.hpp"
#include "nn/memory.hpp"
#include "tools/admin.hpp"
#include "tools/as_rank.hpp"
#include "tools/config.hpp"
#include "tools/json_number.hpp"
#include "tools/lesson.hpp"
#include "tools/live_report.hpp"
#include "tools/resumed.hpp"
#include "tools/train_options.hpp"
#include "train/checkpoint.hpp"
#include "train/divided_optimizer.hpp"
#include "train/json.hpp"
#include "train/loop.hpp"
#include "train/machine.hpp"
#include "train/rank_cores.hpp"
#include "train/ranks.hpp"

namespace tete {

using nlohmann::ordered_json;

// ---- From options to what the loop takes ----

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

static std::unique_ptr<Optimizer> optimizer_from(const TrainOptions& o, const ParamList& params,
                                                 Backend& on, Comm& comm) {
  const OptimizerRow& row = find_optimizer(o.optimizer);
  const char* const adams = o.weight_decay      ? "--weight-decay"
                            : o.shard_optimizer ? "--shard-optimizer"
                                                : nullptr;
  if (adams && o.optimizer != "adam")
    bad_input(adams, " is an option of adam, not of ", o.optimizer);
  const auto make = [&](const std::vector<ParamSpec>& specs) {
    return o.weight_decay ? adam(specs, {.weight_decay = *o.weight_decay}, Dtype::f32, on)
                          : row.make(specs, Dtype::f32, on);
  };
  return o.shard_optimizer && comm.size() > 1 ? divided_optimizer(comm, params.specs(), make)
                                              : make(params.specs());
}

static ordered_json configuration(const TrainOptions& o, const Schedule& s, double clip) {
  return {{"task", o.task},
          {"model", to_json(o.model)},
          {"tokenizer", o.tokenizer},
          {"training",
           {{"batch", o.loop.step.batch},
            {"steps", o.steps},
            {"optimizer", o.optimizer},
            {"weight_decay", o.weight_decay ? ordered_json(*o.weight_decay) : ordered_json()},
            {"schedule", s.name},
            {"rate", s.rate},
            {"last_rate", s.last_rate},
            {"start", s.start},
            {"decay", s.decay},
            {"clip", clip},
            {"dropout", o.loop.step.dropout},
            {"precision", o.precision},
            {"shards", o.loop.step.shards},
            {"held_out", o.held_out},
            {"seed", o.loop.step.seed}}}};
}

static LoopOptions loop_options(const TrainOptions& o, Backend& device) {
  LoopOptions loop = o.loop;
  loop.schedule = schedule_from(o);
  loop.step.clip = o.clip.value_or(find_optimizer(o.optimizer).clip);
  loop.step.products = products_of(o.precision, device);
  loop.step.send = o.send_bf16 ? SendAs::bf16 : SendAs::exact;
  if (o.resume) loop.resume = loop.folder;
  loop.program = program_version();
  return loop;
}

// ---- Resuming ----

// The configuration of the run in a folder, which is written before anything else of a run.
static std::string run_config(const std::string& folder) {
  for (const char* name : {config_name, older_config_name}) {
    const std::string path = folder + "/" + name;
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  if (saved_steps(folder).empty())
    bad_input("there is no run to resume in ", folder, ": it has no ", config_name,
              ", with which a run begins; give the options of the run again, without --resume");
  bad_input("cannot resume the run in ", folder, ": its ", config_name,
            ", which says what the run is, is missing; put it back, or begin in another folder");
}

// The model of the run in a folder, as its newest checkpoint says that can be read; empty if none
// can, which is told where the run goes on from one.
static std::optional<ModelSettings> begun_model(const std::string& folder) {
  for (int64_t step : saved_steps(folder)) try {
      const RunState state = read_state(Safetensors(folder + "/" + checkpoint_name(step)));
      const ordered_json config = json_or_null(state.config);
      if (config.is_object()) return settings_from_json(config.value("model", ordered_json()));
    } catch (const Error&) {
    }
  return {};
}

// Reads the configuration of the run that is resumed, and returns its path; "" for a run that is
// new. One that was stopped before its first checkpoint begins again.
static std::string begin_or_resume(TrainOptions& o, CLI::App& app) {
  if (!o.resume) return "";
  const std::string kept = run_config(o.loop.folder);
  read_config(app, kept);
  o.resume = !saved_steps(o.loop.folder).empty();
  o.began = begun_model(o.loop.folder);
  return kept;
}

// ---- What is said while it trains ----

class JsonLines : public Reporter {
 public:
  void step(const Progress& p) override {
    say({{"event", "step"},
         {"step", p.step},
         {"steps", p.steps},
         {"tokens", p.tokens},
         {"loss", json_number(p.loss)},
         {"validation_loss", json_number(p.validation_loss)},
         {"acc", json_number(p.accuracy)},
         {"exact_match", json_number(p.exact_match)},
         {"lr", p.rate},
         {"grad_norm", json_number(p.grad_norm)},
         {"tokens_per_s", json_number(p.tokens_per_second)},
         {"seconds", p.seconds}});
  }
  void saved(const std::string& path, int64_t step) override {
    say({{"event", "saved"}, {"step", step}, {"path", path}});
  }
  void resumed(const std::string& path, int64_t step) override {
    say({{"event", "resumed"}, {"step", step}, {"path", path}});
  }
  void warning(const std::string& sentence) override {
    say({{"event", "warning"}, {"text", printable(sentence)}});
  }
  static void say(const ordered_json& line) {
    std::cout << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
  }
};

// `optimizer` is null until it is made: its state is then left out.
static RunSize run_size(const TrainOptions& o, const Lesson& lesson, const Optimizer* optimizer) {
  RunSize size;
  size.groups = parameter_groups(lesson.model->params().specs());
  size.memory.parameters = size.memory.gradients = 4 * lesson.model->params().element_total();
  if (optimizer)
    size.memory.optimizer = bytes_of(optimizer->state),
    size.divided = optimizer->division() != nullptr;
  // A shard's samples are in memory at once.
  size.memory.activations =
      static_cast<size_t>(pieces_of(o.loop.step.batch, o.loop.step.shards)) * lesson.activations;
  // One block instead of all; what else is kept, the inputs of blocks, is little beside it.
  if (o.loop.step.recompute_blocks)
    size.memory.activations /=
        static_cast<size_t>(std::max<Index>(1, size_of(*lesson.model, "l").value_or(1)));
  size.batch = o.loop.step.batch, size.shards = o.loop.step.shards, size.context = o.model.context;
  return size;
}

static std::string percent(double part) {
  std::ostringstream shown;
  shown.precision(3);
  shown << 100 * part << "%";
  return shown.str();
}

// "talking_heads, 4 layers, 4 heads, 128 wide, 824,064 parameters"
static std::string model_line(const TrainOptions& o, const Lesson& lesson) {
  return text(o.task == "text" ? "" : o.task + ": ", described(o.model), ", ",
              shape_of(*lesson.model), lesson.model->params().element_total(), " parameters");
}

static void say_result(const TrainOptions& o, const LoopResult& result) {
  if (o.json) {
    JsonLines::say({{"event", "end"},
                    {"stopped", result.stopped},
                    {"step", result.step},
                    {"loss", json_number(result.loss)},
                    {"validation_loss", json_number(result.validation_loss)},
                    {"acc", json_number(result.accuracy)},
                    {"exact_match", json_number(result.exact_match)},
                    {"ms_per_step", json_number(result.ms_per_step)},
                    {"checkpoint", result.checkpoint}});
  } else if (result.stopped) {
    std::cout << "Stopped at step " << result.step << " of " << o.steps
              << ", as asked. To go on: tete train --resume --out " << o.loop.folder << std::endl;
  } else {
    std::ostringstream line;
    line.precision(4);
    line << "Done: " << result.step << " steps";
    if (std::isfinite(result.validation_loss))
      line << ", validation loss " << result.validation_loss;
    if (std::isfinite(result.accuracy))
      line << ", " << percent(result.accuracy) << " of the "
           << (o.task == masked_task ? "masked " : "") << "tokens right and "
           << percent(result.exact_match) << " of the whole "
           << (o.task == masked_task ? "samples" : "answers");
    if (result.ms_per_step > 0) line << ", " << result.ms_per_step << " ms a step";
    std::cout << line.str() << "; the model is " << result.checkpoint << std::endl;
  }
}

// ---- The verb ----

static void require_fit(const Machine& machine, const RunSize& size) {
  if (const std::string why = memory_refusal(machine, size); !why.empty())
    fail(ErrorKind::resource, why);
}

// Fails (resource) if the run does not fit into memory; else tells what will run, and on what.
static void show_start(const TrainOptions& o, const Comm& comm, const Machine& machine,
                       const RunSize& size) {
  require_fit(machine, size);
  if (!o.json && comm.rank() == 0) {
    std::cerr << start_block(machine, size);
    for (const std::string& warning : speed_warnings(machine))
      std::cerr << "warning: " << warning << "\n";
    std::cerr << std::flush;
  }
}

std::string run_folder(TrainOptions& o, CLI::App& app) {
  for (auto path = o.config.rbegin(); path != o.config.rend(); ++path) read_config(app, *path);
  if (!o.loop.folder.empty()) return o.loop.folder;
  if (o.task != "text") return "runs/" + o.task;
  const std::string& named = !o.whole.empty() ? o.whole : o.attention;
  return "runs/" +
         (named.empty() ? "language_model" : std::filesystem::path(named).stem().string());
}

// The values that a run begins with.
static Tensors first_values(const TrainOptions& o, const Lesson& lesson, Backend& device) {
  const Key key(o.loop.step.seed);
  Tensors values = lesson.model->params().initial_values(key.fold("init"), Dtype::f32, device);
  if (o.model.init == "admin" && !o.resume)
    profile_scales(*lesson.model, lesson.data->batch(key.fold("profile"), 0, o.loop.step.batch),
                   o.loop.step.dropout, key.fold("profile"), values);
  return values;
}

// Compares each operation of the run's first step on the device with the processor's; returns a
// sentence. Fails (check) where one is wrong. No bit of the run depends on it.
static std::string check_device(const TrainOptions& o, const StepOptions& step,
                                const Lesson& lesson, const Tensors& values, Backend& device) {
  ComparedDevice compared(device);
  const ParamList& params = lesson.model->params();
  const auto optimizer = optimizer_from(o, params, compared, single_process());
  Tensors there;
  for (const Tensor& value : values) there.push_back(value.to(compared));
  const Objective objective{params, lesson.loss};
  Stepper(objective, *lesson.data, *optimizer, single_process(), step).run(0, there, 1e-3);
  const ComparedDevice::Findings& found = compared.findings();
  const std::string worst = text(found.worst_call, " differs by ", number_text(found.worst, 2),
                                 " of its norm from the processor's");
  if (found.wrong > 0)
    fail(ErrorKind::check, "the device '", device.name(), "' computes wrong numbers: ", worst,
         ", and ", found.wrong, " of ", counted(found.calls, "operation"),
         " of a step by more than ", ComparedDevice::allowed);
  return text("checked     ", counted(found.calls, "operation"), " of a step; ", worst);
}

// A run before its first step.
struct Prepared {
  std::string kept = {};  // the path of the configuration that it goes on with, or ""
  std::vector<std::string> notes = {};
  Backend* device = nullptr;
  Lesson lesson;
  std::unique_ptr<Optimizer> optimizer;
};

static Prepared prepare(TrainOptions& o, CLI::App& app, Comm& comm) {
  o.loop.folder = run_folder(o, app);
  const std::string kept = begin_or_resume(o, app);
  const Task* task = fill_in(o, app);
  fill_in_shards(o, app, launched().by_launcher);
  check_options(o, comm.size());
  std::vector<std::string> notes = read_nanogpt(o, app);
  if (!kept.empty() && !o.resume)
    notes.push_back(o.loop.folder + " holds no checkpoint: the run begins at step 0");
  read_model(o, app, task && task->encoder);
  use_threads(o.threads);
  const DeviceInUse in_use(o.device);
  Backend& device = *in_use;
  if (o.check_device && &device == &cpu())
    bad_input("--check-device compares a device with the processor, and --device is cpu");

  const Machine machine = inspect_machine(device);
  const LearnedText learned{o.text, unit_of(o.tokenizer), o.held_out, o.task == masked_task};
  Lesson lesson = task ? task_lesson(*task, o.model) : text_lesson(o.model, learned);
  const ParamList& params = lesson.model->params();
  if (std::all_of(params.specs().begin(), params.specs().end(),
                  [](const ParamSpec& spec) { return spec.fixed; }))
    bad_input("'", lesson.model->program().name, "' has no parameter to learn");
  // Before the optimizer makes its state.
  if (machine.device.empty()) require_memory(params.planned(Dtype::f32));
  else require_fit(machine, run_size(o, lesson, nullptr));
  std::unique_ptr<Optimizer> optimizer = optimizer_from(o, params, device, comm);
  show_start(o, comm, machine, run_size(o, lesson, optimizer.get()));
  return {kept, std::move(notes), &device, std::move(lesson), std::move(optimizer)};
}

static int train(TrainOptions& o, CLI::App& app, Comm& comm) {
  std::optional<Prepared> prepared;
  together(comm, [&] { prepared.emplace(prepare(o, app, comm)); });
  auto& [kept, notes, device, lesson, optimizer] = *prepared;
  LoopOptions options = loop_options(o, *device);
  const ordered_json now = configuration(o, options.schedule, options.step.clip);
  options.config = now.dump();
  options.config_file = config_json(app);
  if (o.report) options.norms = true, options.write = lesson.write;
  if (o.peer_timeout > 0) comm.set_patience(options.peer_timeout = o.peer_timeout);
  for (const std::string& sentence : use_share_of_cores(comm, o.threads)) notes.push_back(sentence);

  Tensors values = first_values(o, lesson, *device);
  const Objective objective{lesson.model->params(), lesson.loss};
  if (o.check_device) {
    std::string agreed;
    together(comm, [&] {
      agreed = check_device(o, options.step, prepared->lesson, values, *prepared->device);
    });
    if (comm.rank() == 0) std::cerr << agreed << std::endl;
  }
  Reporter silent;
  ProgressLine line;
  JsonLines lines;
  Reporter& spoken = o.json ? static_cast<Reporter&>(lines) : line;
  Reporter& told = comm.rank() == 0 ? spoken : silent;
  for (const std::string& sentence : notes) told.warning(sentence);
  LiveReport report(told, o.loop.folder, model_line(o, lesson), program_version());
  const std::vector<std::string> changed =
      kept.empty() ? std::vector<std::string>()
                   : changed_options(kept, app, o.resume ? &now : nullptr);
  options.changes = [&](const std::string& path, const std::string& config) {
    std::vector<std::string> all = changes_since(path, config, o, now);
    all.insert(all.end(), changed.begin(), changed.end());
    return all;
  };
  if (!o.resume) {
    for (const std::string& sentence : changed) told.warning(sentence);
    for (const std::string& sentence : start_warnings(o.model, *lesson.model))
      told.warning(sentence);
  }
  const StopSignals signals;
  const bool reports = o.report && comm.rank() == 0;
  const LoopResult result =
      tete::train(objective, values, *optimizer, *lesson.data, lesson.tokenizer, options,
                  reports ? static_cast<Reporter&>(report) : told, comm);
  if (comm.rank() == 0) say_result(o, result);
  return 0;
}

Run train_verb(CLI::App& app) {
  auto o = std::make_shared<TrainOptions>();
  add_train_options(app, *o);
  return [o, &app] {
    const std::unique_ptr<Comm> comm = join_ranks();
    return as_rank(*comm, "tete train", [&] { return train(*o, app, *comm); });
  };
}

}  // namespace tete
