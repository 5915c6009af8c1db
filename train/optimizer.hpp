// Optimizers: how parameters follow their gradients. Each is one page and one row of a table.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nn/param.hpp"

namespace tete {

class Division;

struct NamedTensor {
  std::string name;
  Tensor value;
};
using NamedTensors = std::vector<NamedTensor>;
size_t bytes_of(const NamedTensors& tensors);

// The step length that each tensor was given in an update, over all tensors.
struct EffectiveRate {
  double min = 0, median = 0, max = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual const char* name() const = 0;
  // One step, `step` = 0, 1, …, with learning rate `rate`. Parameters that are fixed, and those
  // whose gradient is an empty Tensor, stay as they are. Updated values are untracked, and have the
  // memory order of the old ones, whose memory they may take if no other tensor holds it. A step
  // may be made in several calls, each of other parameters, unless it is divided.
  virtual void update(const std::vector<ParamSpec>& specs, Tensors& values, const Tensors& grads,
                      double rate, int64_t step) = 0;

  // Everything that it remembers between steps, named "PARAMETER/what"; zeros before the first
  // step. A checkpoint saves it, and resuming writes it back.
  NamedTensors state;
  // The rates of the last update; may wait for the device.
  virtual EffectiveRate effective_rate() const = 0;

  // If ranks keep a part of the state each (train/divided_optimizer.hpp), `update` takes the
  // gradients of that part, as tree_sum gives them, and a checkpoint has the whole state, by these.
  // `whole_state` is for rank 0, inside of `with_whole_state`, which all ranks call together.
  virtual const Division* division() const { return nullptr; }
  virtual Shape state_shape(size_t i) const { return state[i].value.shape(); }
  virtual Tensor whole_state(size_t i) const { return state[i].value.detach(); }
  virtual void with_whole_state(const std::function<void()>& work) const { work(); }
  virtual void set_state(size_t i, const Tensor& whole);
};

// Adafactor exactly as T5 has it (spec D1). Relative step: rate is multiplied by max(RMS(p), 1e-3).
// The state is made on the device of the parameters, `on`.
std::unique_ptr<Optimizer> adafactor(const std::vector<ParamSpec>& specs, Dtype dtype = Dtype::f32,
                                     Backend& on = cpu());

// Adam with decoupled weight decay (AdamW), as PyTorch computes it. Weight decay is applied to
// parameters with more than one dimension.
struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-8;
  double weight_decay = 0.1;
};
std::unique_ptr<Optimizer> adam(const std::vector<ParamSpec>& specs,
                                const AdamOptions& options = {}, Dtype dtype = Dtype::f32,
                                Backend& on = cpu());

// The table of optimizers.
struct OptimizerRow {
  const char* name;
  const char* what;      // one line for a list
  const char* schedule;  // the schedule that goes with it, unless told otherwise
  double clip;           // the gradient-norm limit that goes with it; 0: none
  std::unique_ptr<Optimizer> (*make)(const std::vector<ParamSpec>& specs, Dtype dtype, Backend& on);
};
const std::vector<OptimizerRow>& optimizers();
// The row of a name; an error with the nearest name where there is none.
const OptimizerRow& find_optimizer(std::string_view name);

// The two dimensions that Adafactor factors a tensor over: its largest and second largest (ties:
// the earlier first), if the second has at least 128; otherwise {-1, -1}.
struct FactoredDims {
  int d0 = -1, d1 = -1;
};
FactoredDims factored_dims(const Shape& shape);

// Min, median and max of the rates of all updated tensors.
EffectiveRate summarize_rates(std::vector<double> rates);
// `value`, detached, on the device of `like`, with its strides; or dense in its memory order, where
// it has gaps.
Tensor laid_out_like(const Tensor& value, const Tensor& like);

}  // namespace tete
