#include "train/loop.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/clock.hpp"
#include "train/checksum.hpp"
#include "train/machine.hpp"
#include "train/metrics_log.hpp"
#include "train/replicas.hpp"

namespace tete {

namespace {

// The arguments of train().
struct Job {
  const Objective& objective;
  Tensors& values;
  Optimizer& optimizer;
  const Data& data;
  const Tokenizer& tokenizer;
  const LoopOptions& options;
  Reporter& reporter;
  Comm& comm;
};

// The run's state beside its tensors, and its folder, where checkpoints hold both.
class Checkpoints {
 public:
  explicit Checkpoints(const Job& job) : job_(job), options_(job.options) {
    state.seed = options_.step.seed;
    state.shards = options_.step.shards;
    state.optimizer = job.optimizer.name();
    state.config = options_.config;
    state.tokenizer = job.tokenizer.describe();
    state.data = job.data.fingerprint();
    state.program = options_.program;
    state.kernels = kernel_names();
  }

  void begin() {
    const std::string &folder = options_.folder, &config = options_.config_file;
    together(job_.comm, [&] {
      if (!folder.empty() && job_.comm.rank() == 0) folder_.emplace(folder);
      if (!options_.resume.empty()) resume();
      else if (folder_) folder_->check_empty();
    });
    // Rank 0 writes from here on, when all have read.
    compare_ranks();
    // Before the log and the first checkpoint: a folder that holds either says what its run is.
    together(job_.comm, [&] {
      if (folder_ && !config.empty())
        replace_file(folder, config_name, config.size(),
                     [&](const Write& write) { write(config); });
    });
  }
  bool has_folder() const { return folder_.has_value(); }

  void save() {
    if (options_.folder.empty()) return;
    check_replicas(job_.comm, job_.values, job_.optimizer, state.step);
    const std::vector<ParamSpec>& specs = job_.objective.params.specs();
    together(job_.comm, [&] {
      job_.optimizer.with_whole_state([&] {
        if (folder_)
          path_ = folder_->save(state, checkpoint_tensors(specs, job_.values, job_.optimizer),
                                options_.keep);
      });
    });
    saved_step_ = state.step;
    job_.reporter.saved(path_, state.step);
  }
  void save_if_new() {
    if (saved_step_ != state.step) save();
  }
  // A failing step changed nothing, so what is saved is the state before it.
  [[noreturn]] void save_and_explain(const Error& error) {
    save_if_new();
    const std::string where =
        folder_ ? text("; the state before it is saved in ", path_) : std::string();
    throw SharedError(error.kind(), error.what() + where);
  }
  const std::string& path() const { return path_; }  // the last that was saved, or ""

  RunState state;

 private:
  void compare_ranks() {
    check_same_on_ranks(job_.comm, {{"program", state.program},
                                    {"configuration", state.config},
                                    {"data", state.data},
                                    {"vocabulary", hexadecimal(checksum(state.tokenizer))},
                                    {"kernels", state.kernels},
                                    {"step", text(state.step)}});
    check_replicas(job_.comm, job_.values, job_.optimizer, state.step);
  }

  void resume() {
    std::vector<std::string> warnings, changes;
    const std::string path = find_checkpoint(options_.resume, &warnings);
    warn(warnings);
    const Safetensors file(path);
    const RunState saved = read_state(file);
    if (options_.changes) changes = options_.changes(path, saved.config);
    check_same_run(path, saved, state, options_.step.batch);
    read_tensors(file);
    if (saved.kernels != state.kernels)
      warn({"the run was saved with " + saved.kernels + " and goes on with " + state.kernels +
            ", so its bits may differ"});
    state.step = saved.step, state.tokens = saved.tokens, state.samples = saved.samples;
    state.best_step = saved.best_step, state.best_loss = saved.best_loss;
    state.owes_validation = saved.owes_validation;
    if (folder_) folder_->check_newest(path, state.step);
    // A checkpoint of this folder is saved already; from elsewhere, this one needs its own first.
    const std::string here = options_.folder + "/" + checkpoint_name(state.step);
    if (path == here || options_.folder.empty()) saved_step_ = state.step, path_ = path;
    if (path == here && folder_) folder_->tidy(state, options_.keep);
    job_.reporter.resumed(path, state.step);
    warn(changes);
  }

  void read_tensors(const Safetensors& file) {
    Tensors& values = job_.values;
    const Tensors read = read_params(file, job_.objective.params.specs(),
                                     values.empty() ? Dtype::f32 : values[0].dtype());
    for (size_t i = 0; i < read.size(); ++i) values[i] = laid_out_like(read[i], values[i]);
    read_optimizer(file, job_.optimizer);
  }

  void warn(const std::vector<std::string>& sentences) {
    for (const std::string& sentence : sentences) job_.reporter.warning(sentence);
  }

  const Job& job_;
  const LoopOptions& options_;
  std::optional<RunFolder> folder_;
  int64_t saved_step_ = -1;
  std::string path_;
};

// One call of train().
class Run {
 public:
  explicit Run(const Job& job)
      : job_(job),
        options_(job.options),
        stepper_(job.objective, job.data, job.optimizer, job.comm, job.options.step),
        checkpoints_(job) {
    if (options_.schedule.steps < 1)
      bad_input("a run needs at least 1 step, got ", options_.schedule.steps);
    find_schedule(options_.schedule.name);
    if (options_.log_every < 1)
      bad_input("the log needs an interval of at least 1 step, got ", options_.log_every);
    if (const size_t count = job.objective.params.specs().size(); job.values.size() != count)
      bad_input("the model has ", count, " parameters, but ", job.values.size(),
                " values were given");
    checkpoints_.begin();
    job.comm.set_step(state_.step);
    progress_.steps = options_.schedule.steps;
    progress_.step = state_.step, progress_.tokens = state_.tokens;
    if (checkpoints_.has_folder())
      log_.emplace(options_, job.objective.params, job.optimizer, job.comm, state_);
    // The first save shows early whether there is room, and makes every later moment resumable.
    if (options_.resume.empty()) checkpoints_.save();
    told_ = job.comm.use();
  }

  LoopResult go() {
    began_ = seconds_now();
    bool stopped = state_.owes_validation && !catch_up();
    while (!at_end() && !stopped) {
      step();
      stopped = meet() > 0;
    }
    stepper_.settle(job_.values);
    checkpoints_.save_if_new();
    return {.stopped = stopped && (!at_end() || state_.owes_validation),
            .step = state_.step,
            .loss = progress_.loss,
            .validation_loss = progress_.validation_loss,
            .accuracy = progress_.accuracy,
            .exact_match = progress_.exact_match,
            .ms_per_step = median_ms(),
            .checkpoint = checkpoints_.path()};
  }

 private:
  bool at_end() const { return state_.step >= options_.schedule.steps; }
  bool due(int64_t every) const { return at_end() || (every > 0 && state_.step % every == 0); }

  // The numbers that ranks exchange after a step.
  struct AfterStep {
    int64_t stop;
    double computed;  // seconds
  };
  // True on all ranks if one was asked to stop.
  bool meet() {
    Comm& comm = job_.comm;
    const AfterStep mine{StopSignals::requested(), computed_};
    const std::vector<AfterStep> all = comm.all_gather(mine);
    if (comm.size() == 1) return mine.stop > 0;
    RankTimes& times = progress_.ranks;
    std::vector<double> computed;
    for (const AfterStep& of_rank : all) computed.push_back(of_rank.computed);
    const auto slowest = std::max_element(computed.begin(), computed.end());
    times.slowest = static_cast<int>(slowest - computed.begin());
    const double longest = *slowest;
    const auto middle = computed.begin() + (comm.size() - 1) / 2;
    std::nth_element(computed.begin(), middle, computed.end());
    times.ratio = longest / std::max(*middle, 1e-9);
    comm.set_step(state_.step);
    if (options_.peer_timeout == 0) comm.set_patience(std::max(60.0, 10e-3 * median_ms()));
    return std::any_of(all.begin(), all.end(), [](const AfterStep& each) { return each.stop > 0; });
  }

  void step() {
    const double rate = options_.schedule(state_.step), before = seconds_now();
    const double exposed = job_.comm.use().exposed;
    const StepResult result = run_step(rate);
    const double seconds = seconds_now() - before;
    note_comm(seconds - (job_.comm.use().exposed - exposed));
    step_seconds_.push_back(static_cast<float>(seconds));
    for (const std::string& sentence : result.warnings) job_.reporter.warning(sentence);
    ++state_.step;
    state_.tokens += result.tokens;
    state_.samples += options_.step.batch;
    note(result, rate, seconds);
    try {
      if (due(options_.validate_every)) validate();
    } catch (const Error& error) {
      if (!is_worth_a_save(error)) throw;
      state_.owes_validation = error.kind() != ErrorKind::numbers;
      report(result);
      checkpoints_.save_and_explain(error);
    }
    report(result);
    if (due(options_.save_every)) note_best(), checkpoints_.save();
    else if (state_.step % options_.compare_every == 0)
      check_replicas(job_.comm, job_.values, job_.optimizer, state_.step);
  }

  StepResult run_step(double rate) {
    const bool told = options_.log_tells_of(state_.step + 1);
    try {
      if (!told && !are_values_due(state_.step + 1))
        return stepper_.run_ahead(state_.step, job_.values, rate);
      return stepper_.run(state_.step, job_.values, rate, log_ && options_.norms && told);
    } catch (const Error& error) {
      if (!is_worth_a_save(error)) throw;
      checkpoints_.save_and_explain(error);
    }
  }

  // True on all ranks if something is to be kept, and all know of it.
  bool is_worth_a_save(const Error& error) const {
    if (error.kind() == ErrorKind::numbers) return true;
    const bool all_know = job_.comm.size() == 1 || dynamic_cast<const SharedError*>(&error);
    return error.kind() != ErrorKind::peer && all_know && state_.step > 0;
  }

  // True if something reads the values after a step, before the next one does.
  bool are_values_due(int64_t step) const {
    const auto comes = [step](int64_t every) { return every > 0 && step % every == 0; };
    return step == options_.schedule.steps || comes(options_.validate_every) ||
           comes(options_.save_every) || comes(options_.compare_every);
  }

  void note_comm(double computed) {
    computed_ = computed;
    const CommUse use = job_.comm.use();
    const auto steps = static_cast<double>(++steps_untold_);
    progress_.ranks.ranks = job_.comm.size();
    progress_.ranks.comm = (use.total - told_.total) / steps;
    progress_.ranks.exposed = (use.exposed - told_.exposed) / steps;
    if (options_.log_tells_of(state_.step + 1)) told_ = use, steps_untold_ = 0;
  }

  void note(const StepResult& result, double rate, double seconds) {
    Progress& p = progress_;
    p.step = state_.step, p.tokens = state_.tokens, p.loss = result.loss, p.rate = rate;
    p.grad_norm = result.grad_norm, p.grad_norm_clipped = result.grad_norm_clipped;
    p.validated = false;
    // A running mean of the last steps' time.
    const double weight = std::max(0.05, 1.0 / static_cast<double>(step_seconds_.size()));
    mean_seconds_ += weight * (seconds - mean_seconds_);
    p.tokens_per_second = static_cast<double>(result.tokens) / std::max(mean_seconds_, 1e-9);
  }

  // The run owes a validation that a stop cuts short: nothing of it is told.
  void validate() {
    const std::optional<Validation> found =
        tete::validate(job_.objective, job_.values, job_.data, options_.validation_samples,
                       options_.validation_batch, job_.comm);
    if (found && !std::isfinite(found->loss))
      throw SharedError(ErrorKind::numbers, text("the numbers went wrong after step ", state_.step,
                                                 ": the validation loss is ", found->loss));
    state_.owes_validation = !found || !write();
    if (state_.owes_validation) return;
    progress_.validation_loss = found->loss;
    progress_.accuracy = found->accuracy, progress_.exact_match = found->exact_match;
    progress_.validated = true;
  }
  // Has the model write; true on all ranks unless one was asked to stop.
  bool write() {
    if (!options_.write) return true;
    together(job_.comm, [&] {
      if (log_) written_ = options_.write(job_.values);
    });
    return all_max(job_.comm, StopSignals::requested()) == 0;
  }

  // Makes the validation that was owed; false where it is cut short again.
  bool catch_up() {
    validate();
    if (state_.owes_validation) return false;
    progress_.seconds = seconds_now() - began_;
    if (log_) log_->note(progress_, written_);
    job_.reporter.step(progress_);
    if (due(options_.save_every)) note_best(), checkpoints_.save();
    return true;
  }

  void report(const StepResult& result) {
    Progress& p = progress_;
    p.seconds = seconds_now() - began_;
    const double per_step = p.seconds / static_cast<double>(step_seconds_.size());
    p.seconds_left = per_step * static_cast<double>(p.steps - p.step);
    if (log_) log_->note(p, result, 1e3 * step_seconds_.back());
    if (log_ && p.validated) log_->note(p, written_);
    job_.reporter.step(p);
  }

  // Asked at planned saves only: one that a signal causes leaves no trace in later ones.
  void note_best() {
    if (!progress_.validated || progress_.validation_loss >= state_.best_loss) return;
    state_.best_loss = progress_.validation_loss, state_.best_step = state_.step;
  }

  // The first fifth of the steps warms up caches and free lists.
  double median_ms() const {
    std::vector<float> times(step_seconds_.begin() + step_seconds_.size() / 5, step_seconds_.end());
    if (times.empty()) return 0;
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return 1e3 * times[times.size() / 2];
  }

  const Job& job_;
  const LoopOptions& options_;
  Stepper stepper_;
  Checkpoints checkpoints_;
  RunState& state_ = checkpoints_.state;
  std::optional<MetricsLog> log_;
  Progress progress_;
  std::vector<WrittenText> written_;  // with the newest validation
  CommUse told_;                      // at the log's last line
  int64_t steps_untold_ = 0;
  double began_ = 0, mean_seconds_ = 0;
  double computed_ = 0;  // seconds of the last step without those of waiting
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
  return Run({objective, values, optimizer, data, tokenizer, options, reporter, comm}).go();
}

}  // namespace tete
