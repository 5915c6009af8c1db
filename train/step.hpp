// One training step: shards, forward, gradient, the tree, clipping, the optimizer.
#pragma once
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "nn/forward.hpp"
#include "nn/loss.hpp"
#include "train/data.hpp"
#include "train/optimizer.hpp"
#include "train/tree.hpp"

namespace tete {

// A loss is a sum over tokens and their number, divided once.
struct LossSum {
  Tensor sum;
  int64_t tokens = 0;
  // How many tokens of answers are the likeliest ones; outside training only.
  std::optional<Matches> right = {};
};

// The factor that brings a gradient's norm down to the limit, as PyTorch's clip_grad_norm_ has it:
// min(1, limit / (norm + 1e-6)); 1 where limit is 0.
double clip_factor(double norm, double limit);

// Parameters that are trained, and the loss of a batch.
struct Objective {
  const ParamList& params;
  std::function<LossSum(const Forward& forward, const Batch& batch)> loss;
};

struct StepOptions {
  Index batch = 12;  // samples a step
  int shards = 1;    // logical shards that the batch is cut into
  double clip = 0;   // limit of the gradient norm; 0: none
  double dropout = 0;
  Products products = Products::full;  // forward and backward; what is updated is f32
  bool recompute_blocks = false;       // less memory, more time; see Forward
  uint64_t seed = 0;                   // of data order and noise
  // Parameters whose gradient may be zero or missing: names, with * for any letters.
  std::vector<std::string> allow_zero_grad = {};
  SendAs send = SendAs::exact;  // how ranks send gradients
};

// Lengths of one parameter in one step: of its value before, of its gradient before clipping (a
// mean over tokens), and of what the step added to it.
struct ParamNorms {
  double value = 0, gradient = 0, update = 0;
};

struct StepResult {
  double loss = 0;  // mean over tokens
  int64_t tokens = 0;
  double grad_norm = 0, grad_norm_clipped = 0;
  std::vector<std::string> warnings = {};  // sentences
  std::vector<ParamNorms> norms = {};      // by parameter, where they were asked for
};

// How often a gradient may be exactly zero from the start before that is an error.
inline constexpr int max_zero_steps = 10;

class Stepper {
 public:
  Stepper(const Objective& objective, const Data& data, Optimizer& optimizer, Comm& comm,
          const StepOptions& options);

  // Step number `step` = 0, 1, …: a function of the values, the optimizer's state and the options
  // alone. Where the loss or a gradient is not finite it throws an Error (numbers) that names the
  // step, counted from 1 as on the screen, and the first bad tensor; it then changes nothing.
  StepResult run(int64_t step, Tensors& values, double rate, bool with_norms = false);
  // The same, but gradients may still be on their way from other ranks: `settle` waits for them and
  // makes the update, and so does the next step, whose forward pass waits for each value when it
  // reads it. Both take the same `values`, which change in place: each has memory of its own. A
  // Stepper that ends unsettled has failed. A divided optimizer's steps are made by `run`.
  StepResult run_ahead(int64_t step, Tensors& values, double rate);
  void settle(Tensors& values);

 private:
  // A step whose values are not all there.
  struct Unsettled {
    ArrivingSum sum;
    int64_t step;
    double rate;
    double factor;  // of gradients
    bool is_updating = false;
  };
  // All of a step but the update.
  std::pair<StepResult, Unsettled> begin(int64_t step, Tensors& values, double rate,
                                         bool with_norms);
  void update(Tensors& values, Unsettled& left);
  void settle(Tensors& values, size_t parameter);
  Tensors learned(const Tensors& values) const;  // empty where a parameter is fixed
  ShardSum shard(int64_t step, int shard, Tensors& values, const OnReady& ready);
  LossSum forward(int64_t step, int shard, Forward forward) const;
  void check_severed(const Tensors& grads, const std::vector<double>& squares,
                     std::vector<std::string>& warnings);
  // The first value of the forward pass, run again, that is not finite; "" where all are.
  std::string first_not_finite(int64_t step, const Tensors& values) const;
  [[noreturn]] void explain_not_finite(int64_t step, const Tensors& values, double loss,
                                       const Tensors& grads) const;

  const Objective& objective_;
  const Data& data_;
  Optimizer& optimizer_;
  Comm& comm_;
  StepOptions options_;
  std::optional<Unsettled> unsettled_;
  int steps_run_ = 0;
  std::vector<bool> zero_so_far_;  // by parameter
};

struct Validation {
  double loss = 0;  // mean over tokens
  // The parts of all tokens that are right, and of samples that are in every token; NaN where the
  // objective does not tell.
  double accuracy = std::numeric_limits<double>::quiet_NaN();
  double exact_match = std::numeric_limits<double>::quiet_NaN();
};
// Over `samples` held-out samples that are the same in every run; no dropout, no graph, products in
// full. Ranks take turns with the batches. Empty on all ranks if one was asked to stop before the
// last turn.
std::optional<Validation> validate(const Objective& objective, const Tensors& values,
                                   const Data& data, Index samples, Index batch,
                                   Comm& comm = single_process());

// True if `name` fits `pattern`, where * stands for any letters.
bool name_matches(std::string_view pattern, std::string_view name);

}  // namespace tete
