// The machine: what a run will have, said before it starts.
#pragma once
#include <string>
#include <vector>

#include "core/backend.hpp"
#include "nn/memory.hpp"
#include "nn/param.hpp"

namespace tete {

struct Machine {
  int cores = 0;               // of the machine
  int affinity = 0;            // that this process may run on
  double quota = 0;            // cores' worth of time that the control group grants; 0: no limit
  int usable = 0;              // what follows from both
  int threads = 0;             // that parallel_for uses
  std::string blas;            // "OpenBLAS 0.3.21"
  std::string blas_kernel;     // "Haswell"
  std::string fitting_kernel;  // of the BLAS, for this processor: blas_kernel where it fits
  bool kernel_named = false;   // by OPENBLAS_CORETYPE
  std::string blas_threading;  // "openmp", "pthread" or "single"
  bool denormals_flushed = false;
  size_t memory = 0;        // bytes free for this process, or for tensors on the device
  std::string device = {};  // its name, beside the processor

  std::string place() const { return device.empty() ? "" : " on " + device; }
};
// Inspects the processor; the memory is that of `on` if it is a device beside the processor.
Machine inspect_machine(const Backend& on = cpu());
// A sentence where the BLAS computes with narrower vectors than the processor has, else "".
std::string kernel_warning(const Machine& machine);
// A sentence for each thing that halves the speed.
std::vector<std::string> speed_warnings(const Machine& machine);
// "OpenBLAS 0.3.21 Haswell, rows v3": what bits depend on, and a checkpoint records.
std::string kernel_names();

struct ParameterGroup {
  std::string name;  // the first words of the paths, with layer numbers as *
  Index tensors = 0, elements = 0;
};
std::vector<ParameterGroup> parameter_groups(const std::vector<ParamSpec>& specs);

// Memory that a run is expected to take, in bytes.
struct MemoryNeed {
  size_t parameters = 0, gradients = 0, optimizer = 0, activations = 0;
  size_t total() const { return parameters + gradients + optimizer + activations; }
};

struct RunSize {
  std::vector<ParameterGroup> groups;
  MemoryNeed memory;
  Index batch = 0, shards = 1, context = 0;  // of a step: samples, their parts, tokens of each
  bool divided = false;                      // the optimizer, among ranks
};
// A sentence that says what would fit, if the run does not fit into the machine's memory; else "".
std::string memory_refusal(const Machine& machine, const RunSize& run);
// The block that is printed at the start of a run, lines of at most 80 letters.
std::string start_block(const Machine& machine, const RunSize& run);

// 1234 -> "1234", 12345678 -> "12.3 M"
std::string count_text(double count);

}  // namespace tete
