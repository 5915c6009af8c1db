#include "train/machine.hpp"

#include <cblas.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "core/cpu/blas_kernel.hpp"
#include "core/cpu/rows.hpp"
#include "core/devices.hpp"
#include "core/threads.hpp"
#include "nn/control_group.hpp"

namespace tete {

namespace {

// Cores' worth of time; 0: no limit.
double cpu_quota() {
  double least = 0;
  const auto limit = [&](double quota, double period) {
    if (quota > 0 && period > 0)
      least = least > 0 ? std::min(least, quota / period) : quota / period;
  };
  for (const std::string& folder : control_groups("cpu")) {
    std::istringstream both(first_line(folder + "/cpu.max"));  // "200000 100000" or "max 100000"
    double quota = 0, period = 0;
    if (both >> quota >> period) limit(quota, period);
    limit(number_in(folder + "/cpu.cfs_quota_us"), number_in(folder + "/cpu.cfs_period_us"));
  }
  return least;
}

int affinity_cores(int cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : cores;
}

// "OpenBLAS 0.3.21" of openblas_get_config's "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …".
std::string blas_name() {
  std::istringstream config(openblas_get_config());
  std::string name, version;
  config >> name >> version;
  return name + " " + version;
}

bool is_number(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(),
                                      [](unsigned char c) { return c >= '0' && c <= '9'; });
}

// "decoder/3/A/P_q" belongs to "decoder/*/A", and "decoder/3/F.P_1" to "decoder/*/F".
std::string group_of(const std::string& path) {
  std::string group, word;
  std::istringstream words(path);
  int depth = 0;
  while (depth < 3 && std::getline(words, word, '/')) {
    const size_t dot = word.rfind('.');
    if (words.eof() && depth > 0 && dot == std::string::npos) break;  // the parameter's own name
    if (words.eof()) word.resize(std::min(dot, word.size()));
    if (depth > 0) group += '/';
    group += is_number(word) ? std::string_view("*") : word;
    ++depth;
  }
  return group;
}

}  // namespace

std::string count_text(double count) {
  static constexpr const char* units[] = {"", " k", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  if (count >= 1e4)
    while (count >= 1000 && unit + 1 < std::size(units)) count /= 1000, ++unit;
  std::ostringstream out;
  out.precision(unit == 0 || count >= 1000 ? 4 : 3);
  out << count << units[unit];
  return out.str();
}

Machine inspect_machine(const Backend& on) {
  Machine machine;
  machine.cores = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  machine.affinity = affinity_cores(machine.cores);
  machine.quota = cpu_quota();
  machine.usable = machine.affinity;
  if (machine.quota > 0)
    machine.usable =
        std::max(1, std::min(machine.usable, static_cast<int>(std::ceil(machine.quota - 0.01))));
  machine.threads = threads();
  machine.blas = blas_name();
  machine.blas_kernel = cpu_kernels::blas_kernel();
  machine.fitting_kernel = cpu_kernels::fitting_blas_kernel();
  machine.kernel_named = cpu_kernels::environment_names_kernel();
  const int parallel = openblas_get_parallel();
  machine.blas_threading = parallel == OPENBLAS_OPENMP   ? "openmp"
                           : parallel == OPENBLAS_THREAD ? "pthread"
                                                         : "single";
  machine.denormals_flushed = denormals_are_flushed();
  machine.memory = free_memory().value_or(0);
  if (const auto* const accelerator = dynamic_cast<const Accelerator*>(&on))
    machine.device = on.name(), machine.memory = accelerator->free_memory();
  return machine;
}

// Activations grow with the samples of a shard, and with the context about as much.
std::string memory_refusal(const Machine& m, const RunSize& run) {
  const MemoryNeed& need = run.memory;
  if (m.memory == 0 || need.total() <= m.memory) return "";
  const std::string sentence =
      text("this run needs about ", size_text(need.total()), " of memory, but ",
           size_text(m.memory), " are free", m.place());
  const size_t fixed = need.total() - need.activations;
  if (fixed >= m.memory)
    return text(sentence, "; ", size_text(fixed), " of it without activations");
  const auto left = static_cast<double>(m.memory - fixed),
             sample = static_cast<double>(need.activations) /
                      std::ceil(static_cast<double>(run.batch) / run.shards);
  const auto samples = static_cast<Index>(left / sample);
  if (samples > 0)
    return text(sentence, "; --batch ", std::min(run.batch, samples * run.shards),
                " would fit, or --shards ", pieces_of(run.batch, samples));
  return text(sentence, "; --batch 1 with --context ",
              static_cast<Index>(left / sample * static_cast<double>(run.context)), " would fit");
}

std::string kernel_warning(const Machine& m) {
  if (m.blas_kernel == m.fitting_kernel) return "";
  return text("the BLAS multiplies with its kernel for ", m.blas_kernel, ", but that for ",
              m.fitting_kernel, " fits this processor and may be twice as fast; ",
              m.kernel_named ? "unset OPENBLAS_CORETYPE"
                             : "install an OpenBLAS that is built for several processors");
}

std::vector<std::string> speed_warnings(const Machine& m) {
  std::vector<std::string> sentences;
  const auto say = [&](const auto&... parts) { sentences.push_back(text(parts...)); };
  if (m.threads < m.usable)
    say("only ", m.threads, " of ", m.usable, " usable cores will work; use ", m.usable,
        " threads (--threads, OMP_NUM_THREADS)");
  if (m.quota > 0 && m.threads > m.usable)
    say("the control group grants the time of ", m.quota, " cores to ", m.threads,
        " threads, which will wait for each other; use ", m.usable, " threads");
  else if (m.threads > m.usable)
    say(m.threads, " threads share ", m.usable, " cores and will wait for each other; use ",
        m.usable, " threads");
  if (m.affinity * 2 <= m.cores)
    say("this process may run on ", m.affinity, " of the machine's ", m.cores,
        " cores only (taskset, or a launcher that binds)");
  if (m.blas_threading == "pthread")
    say("this OpenBLAS has threads of its own beside ours; install libopenblas0-openmp");
  if (const std::string warning = kernel_warning(m); !warning.empty()) say(warning);
  if (!m.denormals_flushed)
    say("denormal numbers are not flushed to zero, and each costs a hundred times a normal one");
  return sentences;
}

std::string kernel_names() {
  return blas_name() + " " + cpu_kernels::blas_kernel() + ", rows " +
         cpu_kernels::instruction_set();
}

std::vector<ParameterGroup> parameter_groups(const std::vector<ParamSpec>& specs) {
  std::vector<ParameterGroup> groups;
  std::map<std::string, size_t> found;
  for (const ParamSpec& spec : specs) {
    const std::string name = group_of(spec.name);
    const auto [at, fresh] = found.emplace(name, groups.size());
    if (fresh) groups.push_back({name, 0, 0});
    groups[at->second].tensors += 1;
    groups[at->second].elements += element_count(spec.shape);
  }
  return groups;
}

std::string start_block(const Machine& m, const RunSize& run) {
  std::ostringstream out;
  out << "cores       " << m.usable << " usable of " << m.cores;
  if (m.quota > 0) out << " (the control group grants " << m.quota << ")";
  out << ", " << m.threads << (m.threads == 1 ? " thread" : " threads") << "\n"
      << "products    " << m.blas << ", kernel " << m.blas_kernel << ", one thread a product\n";
  Index elements = 0, tensors = 0;
  for (const ParameterGroup& group : run.groups)
    elements += group.elements, tensors += group.tensors;
  out << "parameters  " << count_text(static_cast<double>(elements)) << " in " << tensors
      << " tensors\n";
  for (const ParameterGroup& group : run.groups)
    out << "            " << count_text(static_cast<double>(group.elements)) << "  " << group.name
        << "\n";
  const MemoryNeed& need = run.memory;
  out << "memory      about " << size_text(need.total()) << ": parameters "
      << size_text(need.parameters) << ", gradients " << size_text(need.gradients)
      << ",\n            optimizer " << size_text(need.optimizer)
      << (run.divided ? " on each rank" : "") << ", activations " << size_text(need.activations)
      << (m.device.empty() ? "; free " : ";\n            free ") << size_text(m.memory) << m.place()
      << "\n"
      << "a step      " << run.batch * run.context << " tokens\n";
  return out.str();
}

}  // namespace tete
