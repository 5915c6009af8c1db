// The training loop: steps, validation, the log, progress, checkpoints, stopping and resuming.
#pragma once
#include <cstdio>
#include <functional>
#include <limits>
#include <string>

#include "train/checkpoint.hpp"
#include "train/schedule.hpp"
#include "train/step.hpp"
#include "train/stop.hpp"

namespace tete {

// A prompt, and what a model makes of it.
struct WrittenText {
  std::string prompt, text;
};

struct LoopOptions {
  StepOptions step = {};
  Schedule schedule = {};   // its `steps` is the length of the run
  std::string folder = {};  // the run's folder; empty: nothing is written
  std::string resume = {};  // a checkpoint or a run's folder to go on from
  int64_t log_every = 10;
  int64_t validate_every = 250;  // and at the end; 0: only at the end
  Index validation_samples = 2560;
  Index validation_batch = 64;
  int64_t save_every = 500;  // and at the end; 0: only at the end
  int keep = 2;              // newest checkpoints kept, besides the best
  // For a report, in the log: norms of each parameter with each line of it, and what the model
  // writes with each validation; it may write less where a stop is requested, as it is asked again
  // when the run goes on. No bit of the run depends on it.
  bool norms = false;
  std::function<std::vector<WrittenText>(const Tensors& values)> write = {};
  std::string config = "{}";  // the whole configuration, JSON; kept in checkpoints
  // Given the path and the configuration of the checkpoint that the run goes on from: a sentence
  // for each change that is allowed; fails where the run is another one.
  std::function<std::vector<std::string>(const std::string& path, const std::string& config)>
      changes = {};
  std::string program = "tete";  // with its version; kept in checkpoints
  // Contents of the folder's configuration file; empty: there is none.
  std::string config_file = {};
  // Seconds without a sign of another rank until it is lost; 0: 60, or ten steps if that is more.
  double peer_timeout = 0;
  int64_t compare_every = 100;  // steps between comparisons of the ranks' parameters

  // True if the log has a line of training for step number `step` = 1, 2, …
  bool log_tells_of(int64_t step) const {
    return step == 1 || step == schedule.steps || step % log_every == 0;
  }
};

// The time of a step among ranks.
struct RankTimes {
  int ranks = 1;
  // Seconds a step that messages took, and that this rank waited for them: all since the log's last
  // line, validations and saves, too.
  double comm = 0, exposed = 0;
  int slowest = 0;   // the rank that computed longest,
  double ratio = 1;  // and its time by the median rank's
};

// The events of a step, for the log and the screen.
struct Progress {
  int64_t step = 0, steps = 0;  // steps done, of how many
  int64_t tokens = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();  // of this step; none before the first
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  // the newest
  double accuracy = std::numeric_limits<double>::quiet_NaN();         // then, if it is known
  double exact_match = std::numeric_limits<double>::quiet_NaN();      // and of whole samples
  bool validated = false;                                             // in this step
  double rate = 0;
  double grad_norm = 0, grad_norm_clipped = 0;
  double seconds = 0;  // of this process, training only
  double tokens_per_second = 0;
  double seconds_left = 0;
  RankTimes ranks = {};
};

// A loop tells here what it does. All calls come from the thread that runs it.
class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void step(const Progress&) {}
  virtual void saved(const std::string& path, int64_t step) { (void)path, (void)step; }
  virtual void resumed(const std::string& path, int64_t step) { (void)path, (void)step; }
  virtual void warning(const std::string& sentence) { (void)sentence; }
  virtual void done() {}  // before the loop returns or throws
};

// A progress line on a stream: rewrites itself on a terminal, else prints lines at growing
// intervals.
class ProgressLine : public Reporter {
 public:
  explicit ProgressLine(std::FILE* stream = stderr);
  void step(const Progress& progress) override;
  void saved(const std::string& path, int64_t step) override;
  void resumed(const std::string& path, int64_t step) override;
  void warning(const std::string& sentence) override;
  void done() override;

 private:
  void clear();
  std::FILE* stream_;
  bool terminal_, drawn_ = false;
  double last_ = -1, next_ = 0;
};
// "step 1200/2000  loss 1.712  validation 1.843  24300 tokens/s  0:38 left"
std::string progress_text(const Progress& progress);

struct LoopResult {
  bool stopped = false;  // on request, before the last step or its validation
  int64_t step = 0;      // steps done
  double loss = std::numeric_limits<double>::quiet_NaN();             // of the last step
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  // the newest
  double accuracy = std::numeric_limits<double>::quiet_NaN();         // then, if it is known
  double exact_match = std::numeric_limits<double>::quiet_NaN();      // and of whole samples
  double ms_per_step = 0;       // median of this process's steps
  std::string checkpoint = {};  // the last that was saved, or ""
};

// Trains `values` in place. With a folder: refuses one that holds a run already, unless resuming.
// If the numbers go wrong, the state before that step is saved before the Error is passed on.
LoopResult train(const Objective& objective, Tensors& values, Optimizer& optimizer,
                 const Data& data, const Tokenizer& tokenizer, const LoopOptions& options,
                 Reporter& reporter, Comm& comm = single_process());

}  // namespace tete
