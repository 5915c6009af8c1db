// Checkpoints: everything that a run needs to go on as if it had never stopped.
//
// One safetensors file a checkpoint. Tensors: "param/NAME", "optimizer/NAME/what". Metadata: the
// fields of RunState. Nothing in it depends on time, threads, ranks or paths, so a run that was
// interrupted and resumed ends with the same bytes as one that was not.
//
//   RUN/config.json                 what the run was asked for, written first: an interrupted run
//                                   goes on, or begins again, as what it was
//   RUN/step-00001000.safetensors   the newest few, and the best
//   RUN/latest, RUN/best            links, for people
//   RUN/metrics.jsonl               one line an event
//   RUN/lock                        held while a run writes here
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "train/safetensors.hpp"

namespace tete {

inline constexpr int checkpoint_format = 1;
inline constexpr const char* config_name = "config.json";
inline constexpr const char* older_config_name = "config.toml";  // that older versions wrote

// The state of a run at one step, besides its tensors.
struct RunState {
  int64_t step = 0;     // steps done
  int64_t tokens = 0;   // trained on so far
  int64_t samples = 0;  // the data cursor: the number of the next sample
  uint64_t seed = 0;
  int shards = 1;
  std::string optimizer;   // its name
  std::string config;      // the whole configuration, JSON
  std::string tokenizer;   // Tokenizer::describe
  std::string data;        // Data::fingerprint
  std::string program;     // "tete 0.1.0"
  std::string kernels;     // BLAS and its kernel
  int64_t best_step = -1;  // of the saved steps, the one with the lowest validation loss
  double best_loss = std::numeric_limits<double>::infinity();
  bool owes_validation =
      false;  // that of this step was cut short; the run makes it when it goes on
};

Metadata to_metadata(const RunState& state);
// Fails where a field is missing or is not a number, on a format newer than this program's, and on
// a file that is named as a checkpoint of another step.
RunState read_state(const Safetensors& file);
// Fails if the run that was saved in `path` is another than the one that was asked for.
void check_same_run(const std::string& path, const RunState& saved, const RunState& asked,
                    Index batch);

// Reads the tensors named prefix + name, in the order and memory layout of the specs. One error
// lists all that are missing, unexpected or different.
Tensors read_params(const Safetensors& file, const std::vector<ParamSpec>& specs,
                    Dtype dtype = Dtype::f32, const std::string& prefix = "param/");
// Reads "optimizer/…" into the tensors that the state has now; the same checks.
void read_optimizer(const Safetensors& file, Optimizer& optimizer);
// The tensors of a checkpoint, which are read from values and optimizer when it is written.
TensorSources checkpoint_tensors(const std::vector<ParamSpec>& specs, const Tensors& values,
                                 const Optimizer& optimizer);

// A run's folder, held by one process for as long as this object lives.
class RunFolder {
 public:
  // Makes the folder if it is missing, shows that it can be written, and locks it. Errors
  // (resource) name the folder and the reason, or the process that holds it.
  explicit RunFolder(const std::string& path);

  const std::string& path() const { return path_; }
  // Fails if a run was saved here.
  void check_empty() const;
  // Fails if a whole checkpoint of a step after `at`, that of `path`, is here: to go back would
  // leave it among those of another run.
  void check_newest(const std::string& path, int64_t at) const;
  // Writes step-N, then the links, then deletes what is older than the `keep` newest and is not
  // the best. Returns the checkpoint's path.
  std::string save(const RunState& state, const TensorSources& tensors, int keep = 2);
  // The links and the deletions alone: a save may have ended between the checkpoint and these.
  void tidy(const RunState& state, int keep);

 private:
  std::string path_;
  File lock_;
};

// Steps of the checkpoints in a folder, newest first.
std::vector<int64_t> saved_steps(const std::string& folder);
std::string checkpoint_name(int64_t step);  // "step-00001000.safetensors"
// A checkpoint's path: a file is itself; in a run's folder, the newest that verifies. `warning`,
// if given, gets a sentence for each newer one that does not. Fails where there is none.
std::string find_checkpoint(const std::string& path, std::vector<std::string>* warnings = nullptr);

}  // namespace tete
