// Timed work, and how it is told: time with its spread, rates, and their part of what the
// machine can do, which is measured in the same turns.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/devices.hpp"
#include "core/storage.hpp"
#include "tools/bench/rates.hpp"
#include "tools/options.hpp"

namespace tete {

// Options of everything that is timed. `scaling`, `profile` and a device are of some only.
struct BenchOptions {
  int threads = 0, repeats = 7;
  DeviceOptions device = {};
  bool json = false, scaling = false, profile = false;
};
void add_bench_options(CLI::App& app, BenchOptions& o);
void add_scaling(CLI::App& app, BenchOptions& o);
void add_profile(CLI::App& app, BenchOptions& o);
// --dtype, and what it says.
void add_dtype(CLI::App& app, std::string& dtype);
Dtype dtype_of(const std::string& name);
// products_of in tools/options.hpp, of numbers of this type.
Products products_of(const std::string& precision, Dtype dtype, Backend& on);
// Refuses what needs more bytes than are free on the device; `what` begins the sentence.
void check_memory(const std::string& what, size_t need, const Backend& on = cpu());

struct Work {
  std::string name;
  std::function<void()> call;
  double flops = 0;  // products and sums of its matrix products: two for each multiply
  double bytes = 0;  // read and written, if everything given and made is touched once
};

// One work's figures; rates are of a second.
struct Measured {
  std::string name;
  Timing time = {};
  double flops = 0, bytes = 0;
  double peak_rate = 0, gemm_rate = 0, memory_rate = 0;  // of the machine, in the same turns
  int dropped = 0;                                       // turns that do not count
  size_t tensor_bytes = 0;  // the most that tensors and kernels held in a call
  size_t allocations = 0;   // how often a call asked the system for memory
  size_t resident = 0;      // of the process, at its peak, after two calls
  Counts device = {};       // a call's, of a device beside the processor

  double flop_rate() const { return flops / time.median(); }
  double byte_rate() const { return bytes / time.median(); }
};

// One thread and all of them, in turns: what a work gains, and what products do that share nothing.
struct Scaling {
  Timing one, all;
  double gemm = 0;  // all threads' rate over one's
  double gain() const { return one.median() / all.median(); }
};

// Measures one work after the other, with the machine's rates in between; on a device beside the
// processor, with its rate of copies.
class Bench {
 public:
  // Fails (input) if a device is asked for what is measured on the processor alone.
  Bench(const BenchOptions& options, Dtype dtype, Backend& on = cpu());
  const Measured& add(const Work& work);
  // The gain from threads of a work that was added.
  Scaling scaling(const Work& work);
  const std::vector<Measured>& rows() const { return rows_; }
  int repeats() const { return options_.repeats; }

  // The median, over all rows, of the rates that were measured beside each.
  double peak_rate() const;
  double gemm_rate() const;
  double memory_rate() const;

  void print() const;
  // The facts that hold for all rows: threads, kernels, the machine's rates and its load.
  nlohmann::ordered_json machine() const;

 private:
  bool is_processor() const { return &on_ == &cpu(); }
  void measure_rates_alone();
  void measure_copies();
  void print_device() const;

  BenchOptions options_;
  Dtype dtype_;
  Backend& on_;
  std::optional<Probe> peak_ = {}, gemm_ = {}, memory_ = {};
  double peak_rate_one_thread_ = 0, gemm_rate_one_thread_ = 0;
  size_t held_ = 0;  // bytes of what measures the rates
  std::vector<Measured> rows_ = {};
};

nlohmann::ordered_json to_json(const Measured& row);
nlohmann::ordered_json to_json(const Scaling& scaling);
void print(const Scaling& scaling);
// The peak of memory of the first work of a process.
double resident_mb(const Measured& row);

// "412 ms", "1.23 s"
std::string time_text(double seconds);
// Three significant digits; numbers from 100 on are rounded to whole ones.
std::string digits(double x);

}  // namespace tete
