#include "train/loop.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/threads.hpp"
#include "train/json.hpp"
#include "train/machine.hpp"

namespace tete {

namespace {

using Json = nlohmann::ordered_json;

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

double memory_in_mb() {
  struct rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_maxrss) / 1024;
}

// metrics.jsonl: one JSON object a line, flushed with each line.
class MetricsLog {
 public:
  // Keeps the lines of steps up to `step`, so that a resumed run's log is true.
  MetricsLog(const std::string& folder, int64_t step) : path_(folder + "/metrics.jsonl") {
    const std::string kept = step > 0 ? lines_up_to(step) : "";
    replace_file(folder, "metrics.jsonl", kept.size(), [&](const Write& write) { write(kept); });
    file_ = std::fopen(path_.c_str(), "ae");
    if (!file_) fail(Kind::resource, "cannot write ", path_, ": ", errno_text(errno));
  }
  ~MetricsLog() { std::fclose(file_); }
  MetricsLog(const MetricsLog&) = delete;

  void write(const Json& line) {
    const std::string shown = line.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (std::fprintf(file_, "%s\n", shown.c_str()) < 0 || std::fflush(file_) != 0)
      fail(Kind::resource, "cannot write ", path_, ": ", errno_text(errno));
  }

 private:
  std::string lines_up_to(int64_t step) const {
    std::string all, kept;
    try {
      all = read_file(path_);
    } catch (const Error&) {
      return "";  // another folder's checkpoint: this log begins here
    }
    for (size_t at = 0, end; (end = all.find('\n', at)) != std::string::npos; at = end + 1) {
      const Json line = json_or_null(std::string_view(all).substr(at, end - at));
      if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer())
        continue;
      if (line["step"].get<int64_t>() <= step) kept.append(all, at, end + 1 - at);
    }
    return kept;
  }

  std::string path_;
  std::FILE* file_ = nullptr;
};

// One call of train().
class Run {
 public:
  Run(const Objective& objective, Tensors& values, Optimizer& optimizer, const Data& data,
      const Tokenizer& tokenizer, const LoopOptions& options, Reporter& reporter, Comm& comm)
      : objective_(objective),
        values_(values),
        optimizer_(optimizer),
        data_(data),
        options_(options),
        reporter_(reporter),
        comm_(comm),
        stepper_(objective, data, optimizer, comm, options.step) {
    if (options.schedule.steps < 1)
      bad_input("a run needs at least 1 step, got ", options.schedule.steps);
    find_schedule(options.schedule.name);
    if (options.log_every < 1)
      bad_input("the log needs an interval of at least 1 step, got ", options.log_every);
    if (values.size() != objective.params.specs().size())
      bad_input("the model has ", objective.params.specs().size(), " parameters, but ",
                values.size(), " values were given");
    state_.seed = options.step.seed;
    state_.shards = options.step.shards;
    state_.optimizer = optimizer.name();
    state_.config = options.config;
    state_.tokenizer = tokenizer.describe();
    state_.data = data.fingerprint();
    state_.program = options.program;
    state_.kernels = kernel_names();
    progress_.steps = options.schedule.steps;
    open_folder();
    if (!options.resume.empty()) resume();
    progress_.step = state_.step, progress_.tokens = state_.tokens;
    if (folder_) write_config(), log_.emplace(options.folder, state_.step);
    // The first save shows early whether there is room, and makes every later moment resumable.
    if (options.resume.empty()) save();
  }

  LoopResult go() {
    first_step_ = state_.step, began_ = now();
    bool stopped = false;
    while (state_.step < options_.schedule.steps && !stopped) {
      step();
      stopped = all_max(comm_, StopSignals::requested()) > 0;
    }
    if (saved_step_ != state_.step) save();
    return {.stopped = stopped && state_.step < options_.schedule.steps,
            .step = state_.step,
            .loss = progress_.loss,
            .validation_loss = progress_.validation_loss,
            .accuracy = progress_.accuracy,
            .exact_match = progress_.exact_match,
            .ms_per_step = median_ms(),
            .checkpoint = saved_};
  }

 private:
  // ---- Beginning -------------------------------------------------------------------------------

  void open_folder() {
    if (options_.folder.empty() || comm_.rank() != 0) return;
    folder_.emplace(options_.folder);
    const std::vector<int64_t> steps = saved_steps(options_.folder);
    if (options_.resume.empty() && !steps.empty())
      bad_input(options_.folder, " holds a run already, saved at step ", steps.front(),
                "; resume it, or choose another folder");
  }

  // Before the log and the first checkpoint: a folder that holds either says what its run is.
  void write_config() {
    const std::string& contents = options_.config_file;
    if (contents.empty()) return;
    replace_file(options_.folder, config_name, contents.size(),
                 [&](const Write& write) { write(contents); });
  }

  void resume() {
    std::vector<std::string> warnings;
    const std::string path = find_checkpoint(options_.resume, &warnings);
    for (const std::string& sentence : warnings) reporter_.warning(sentence);
    const Safetensors file(path);
    const RunState saved = read_state(file);
    std::vector<std::string> changes;
    if (options_.changes) changes = options_.changes(path, saved.config);
    check_same(path, saved);
    const std::vector<ParamSpec>& specs = objective_.params.specs();
    Tensors params = read_params(file, specs, values_.empty() ? Dtype::f32 : values_[0].dtype());
    for (size_t i = 0; i < specs.size(); ++i) values_[i] = laid_out_like(params[i], values_[i]);
    read_optimizer(file, optimizer_);
    if (saved.kernels != state_.kernels)
      reporter_.warning("the run was saved with " + saved.kernels + " and goes on with " +
                        state_.kernels + ", so its bits may differ");
    state_.step = saved.step, state_.tokens = saved.tokens, state_.samples = saved.samples;
    state_.best_step = saved.best_step, state_.best_loss = saved.best_loss;
    check_newest(path);
    // What was saved here is saved; from elsewhere, this folder needs its own first checkpoint.
    const std::string here = options_.folder + "/" + checkpoint_name(state_.step);
    if (path == here || !folder_) saved_step_ = state_.step, saved_ = path;
    if (path == here && folder_) folder_->tidy(state_, options_.keep);
    reporter_.resumed(path, state_.step);
    for (const std::string& sentence : changes) reporter_.warning(sentence);
  }

  void check_same(const std::string& path, const RunState& saved) const {
    const auto same = [&](const char* what, const auto& then, const auto& here) {
      if (then != here)
        bad_input("cannot go on from ", path, ": its ", what, " was ", then, ", and is ", here,
                  " now");
    };
    same("seed", saved.seed, state_.seed);
    same("number of shards", saved.shards, state_.shards);
    same("optimizer", saved.optimizer, state_.optimizer);
    same("data (checksum, tokens)", saved.data, state_.data);
    if (saved.tokenizer != state_.tokenizer)
      bad_input("cannot go on from ", path, ": its vocabulary differs from the text's");
    if (saved.step > 0) same("batch", saved.samples / saved.step, options_.step.batch);
  }

  // Going back in a folder would leave later checkpoints that are not of this run.
  void check_newest(const std::string& path) const {
    if (!folder_) return;
    for (int64_t step : saved_steps(options_.folder)) {
      if (step <= state_.step) break;
      const std::string later = options_.folder + "/" + checkpoint_name(step);
      bool whole = true;
      try {
        Safetensors(later).verify();
      } catch (const Error&) {
        whole = false;
      }
      if (whole)
        bad_input("cannot go on from ", path, " in the folder ", options_.folder, ": ", later,
                  " is newer; resume the folder, or choose another one to write to");
    }
  }

  // ---- Going on --------------------------------------------------------------------------------

  bool last_step() const { return state_.step == options_.schedule.steps; }
  bool due(int64_t every) const { return last_step() || (every > 0 && state_.step % every == 0); }

  // Whether the log tells of step number `step` = 1, 2, …
  bool logged(int64_t step) const {
    return step == 1 || step == options_.schedule.steps || step % options_.log_every == 0;
  }

  void step() {
    const double rate = options_.schedule(state_.step), before = now();
    StepResult result;
    try {
      result = stepper_.run(state_.step, values_, rate,
                            folder_ && options_.norms && logged(state_.step + 1));
    } catch (const Error& error) {
      if (error.kind() == Kind::numbers) save_and_explain(error);
      throw;
    }
    const double seconds = now() - before;
    step_seconds_.push_back(static_cast<float>(seconds));
    for (const std::string& sentence : result.warnings) reporter_.warning(sentence);
    ++state_.step;
    state_.tokens += result.tokens;
    state_.samples += options_.step.batch;
    note(result, rate, seconds);
    if (due(options_.validate_every)) validate();
    report(result.norms);
    if (due(options_.save_every)) note_best(), save();
  }

  void note(const StepResult& result, double rate, double seconds) {
    Progress& p = progress_;
    p.step = state_.step, p.tokens = state_.tokens, p.loss = result.loss, p.rate = rate;
    p.grad_norm = result.grad_norm, p.grad_norm_clipped = result.grad_norm_clipped;
    p.validated = false;
    // A running mean of the last steps' time.
    const double weight = std::max(0.05, 1.0 / static_cast<double>(step_seconds_.size()));
    mean_seconds_ += weight * (seconds - mean_seconds_);
    tokens_in_step_ = result.tokens;
    p.tokens_per_second = static_cast<double>(result.tokens) / std::max(mean_seconds_, 1e-9);
  }

  void validate() {
    const Validation found = tete::validate(objective_, values_, data_, options_.validation_samples,
                                            options_.validation_batch);
    progress_.validation_loss = found.loss;
    progress_.accuracy = found.accuracy, progress_.exact_match = found.exact_match;
    progress_.validated = true;
    if (!std::isfinite(progress_.validation_loss))
      save_and_explain(
          Error(Kind::numbers, text("the numbers went wrong after step ", state_.step,
                                    ": the validation loss is ", progress_.validation_loss)));
  }

  void report(const std::vector<ParamNorms>& norms) {
    Progress& p = progress_;
    p.seconds = now() - began_;
    const double per_step = p.seconds / static_cast<double>(state_.step - first_step_);
    p.seconds_left = per_step * static_cast<double>(p.steps - p.step);
    if (log_) log(norms);
    reporter_.step(p);
  }

  // What every line of the log begins with.
  Json log_line(const char* split) const {
    return {{"step", progress_.step},
            {"tokens", progress_.tokens},
            {"time_s", progress_.seconds},
            {"wall", static_cast<int64_t>(std::time(nullptr))},
            {"split", split}};
  }

  void log(const std::vector<ParamNorms>& norms) {
    const Progress& p = progress_;
    if (logged(p.step)) {
      Json train = log_line("train");
      const EffectiveRate effective = optimizer_.effective_rate();
      train.update({{"loss", p.loss},
                    {"loss_tokens", tokens_in_step_},
                    {"lr", p.rate},
                    {"lr_eff_min", effective.min},
                    {"lr_eff_med", effective.median},
                    {"lr_eff_max", effective.max},
                    {"grad_norm", p.grad_norm},
                    {"grad_norm_clipped", p.grad_norm_clipped},
                    {"tok_per_s", p.tokens_per_second},
                    {"ms_step", 1e3 * step_seconds_.back()},
                    {"rss_mb", memory_in_mb()},
                    {"ranks", comm_.size()},
                    {"threads", threads()}});
      log_->write(train);
    }
    if (!norms.empty()) log_norms(norms);
    if (p.validated) {
      Json validation = log_line("validation");
      validation.update({{"loss", p.validation_loss}, {"ppl", std::exp(p.validation_loss)}});
      if (!std::isnan(p.accuracy))
        validation.update({{"acc", p.accuracy}, {"exact_match", p.exact_match}});
      log_->write(validation);
      if (options_.write) log_written();
    }
  }

  void log_norms(const std::vector<ParamNorms>& norms) {
    Json line = log_line("norms");
    for (size_t i = 0; i < norms.size(); ++i)
      line["norms"][objective_.params.specs()[i].name] = {norms[i].value, norms[i].gradient,
                                                          norms[i].update};
    log_->write(line);
  }

  void log_written() {
    Json line = log_line("samples");
    line["samples"] = Json::array();
    for (const WrittenText& each : options_.write(values_))
      line["samples"].push_back({{"prompt", each.prompt}, {"text", each.text}});
    log_->write(line);
  }

  // ---- Saving ----------------------------------------------------------------------------------

  // Asked at planned saves only: one that a signal causes leaves no trace in later ones.
  void note_best() {
    if (!progress_.validated || progress_.validation_loss >= state_.best_loss) return;
    state_.best_loss = progress_.validation_loss, state_.best_step = state_.step;
  }

  void save() {
    if (!folder_) return;
    saved_ = folder_->save(
        state_, checkpoint_tensors(objective_.params.specs(), values_, optimizer_), options_.keep);
    saved_step_ = state_.step;
    reporter_.saved(saved_, state_.step);
  }

  // The step changed nothing, so what is saved is the state before it.
  [[noreturn]] void save_and_explain(const Error& error) {
    if (folder_ && saved_step_ != state_.step) save();
    const std::string where =
        folder_ ? text("; the state before it is saved in ", saved_) : std::string();
    throw Error(error.kind(), error.what() + where);
  }

  // The first fifth of the steps warms up caches and free lists.
  double median_ms() const {
    std::vector<float> times(step_seconds_.begin() + step_seconds_.size() / 5, step_seconds_.end());
    if (times.empty()) return 0;
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return 1e3 * times[times.size() / 2];
  }

  const Objective& objective_;
  Tensors& values_;
  Optimizer& optimizer_;
  const Data& data_;
  const LoopOptions& options_;
  Reporter& reporter_;
  Comm& comm_;
  Stepper stepper_;
  std::optional<RunFolder> folder_;
  std::optional<MetricsLog> log_;
  RunState state_;
  Progress progress_;
  int64_t saved_step_ = -1, first_step_ = 0, tokens_in_step_ = 0;
  std::string saved_;
  double began_ = 0, mean_seconds_ = 0;
  std::vector<float> step_seconds_;
};

}  // namespace

LoopResult train(const Objective& objective, Tensors& values, Optimizer& optimizer,
                 const Data& data, const Tokenizer& tokenizer, const LoopOptions& options,
                 Reporter& reporter, Comm& comm) {
  const StopSignals signals;
  struct Done {
    Reporter& reporter;
    ~Done() { reporter.done(); }
  } done{reporter};
  return Run(objective, values, optimizer, data, tokenizer, options, reporter, comm).go();
}

}  // namespace tete
