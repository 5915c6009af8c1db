#include "tools/bench/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/cpu/blas_kernel.hpp"
#include "core/threads.hpp"
#include "tools/table.hpp"
#include "train/machine.hpp"

namespace tete {

using nlohmann::ordered_json;

// ---- Options ----

void add_bench_options(CLI::App& app, BenchOptions& o) {
  app.option_defaults()->group("Measuring");
  add_whole(app, "--repeats", o.repeats, 1, 100'000,
            "turns; the median and the quartiles of their times are told");
  add_threads(app, o.threads);
  app.add_flag("--json", o.json, "one JSON object");
}

void add_scaling(CLI::App& app, BenchOptions& o) {
  app.add_flag("--scaling", o.scaling,
               "on one thread, too, in turns: what threads gain, beside what they gain in products "
               "that share nothing");
}

void add_profile(CLI::App& app, BenchOptions& o) {
  app.add_flag("--profile", o.profile,
               "then also by kernel: how long a call spends in each, and in bookkeeping");
}

void add_dtype(CLI::App& app, std::string& dtype) {
  app.add_option("--dtype", dtype, "f32 or f64")->type_name("TYPE")->capture_default_str();
}

Dtype dtype_of(const std::string& name) {
  const std::string names[] = {"f32", "f64"};
  if (name == names[1]) return Dtype::f64;
  if (name != names[0])
    bad_input("--dtype ", name, ": expected f32 or f64", suggestion(name, names));
  return Dtype::f32;
}

Products products_of(const std::string& precision, Dtype dtype, Backend& on) {
  const Products products = products_of(precision, on);
  if (dtype == Dtype::f64 && products == Products::bf16)
    bad_input("--precision bf16 is of --dtype f32: products of f64 are always in full");
  return products;
}

void check_memory(const std::string& what, size_t need, const Backend& on) {
  const Machine machine = inspect_machine(on);
  if (machine.memory > 0 && need > machine.memory)
    fail(ErrorKind::resource, what, " needs about ", size_text(need), " of memory, but ",
         size_text(machine.memory), " are free", machine.place());
}

// ---- Measuring ----

Bench::Bench(const BenchOptions& options, Dtype dtype, Backend& on)
    : options_(options), dtype_(dtype), on_(on) {
  if (!is_processor() && (options.scaling || options.profile))
    bad_input(options.scaling ? "--scaling" : "--profile",
              " is of the processor's threads and kernels, not of --device ", on.name());
}

static Counts counts_of(const Backend& on) {
  const auto* const accelerator = dynamic_cast<const Accelerator*>(&on);
  return accelerator ? accelerator->counts() : Counts{};
}

const Measured& Bench::add(const Work& work) {
  Measured row{.name = work.name, .flops = work.flops, .bytes = work.bytes};
  const auto finish = [this] { on_.finish(); };
  reset_peak_memory(on_);
  const Turn turn = turn_of(work.call, finish);
  const size_t before = memory_use(on_).system_allocations;
  const Counts counts = counts_of(on_);
  work.call(), finish();
  row.device = counts_of(on_) - counts;
  row.allocations = memory_use(on_).system_allocations - before;
  row.tensor_bytes = memory_use(on_).peak - held_;
  row.resident = peak_resident();
  if (is_processor()) {
    if (!gemm_) measure_rates_alone();
    const SteadyTurns steady =
        in_steady_turns({memory_->turn, gemm_->turn, turn}, peak_->turn, repeats());
    row.memory_rate = memory_->rate(steady.turns[0]);
    row.gemm_rate = gemm_->rate(steady.turns[1]);
    row.peak_rate = peak_->rate(steady.peak);
    row.time = steady.turns[2], row.dropped = steady.dropped;
  } else {
    if (!memory_) measure_copies();
    const std::vector<Timing> timings = in_turns({memory_->turn, turn}, repeats());
    row.memory_rate = memory_->rate(timings[0]), row.time = timings[1];
  }
  rows_.push_back(std::move(row));
  return rows_.back();
}

// After the first work's memory is known: these need some, too.
void Bench::measure_rates_alone() {
  const size_t before = memory_use().live;
  memory_ = memory_probe();
  peak_ = peak_probe(dtype_, threads());
  gemm_ = gemm_probe(dtype_, threads());
  held_ = memory_use().live - before;
  const Probe peak_one = peak_probe(dtype_, 1), gemm_one = gemm_probe(dtype_, 1);
  const std::vector<Timing> timings = in_turns({peak_one.turn, gemm_one.turn}, repeats());
  peak_rate_one_thread_ = peak_one.rate(timings[0]);
  gemm_rate_one_thread_ = gemm_one.rate(timings[1]);
}

void Bench::measure_copies() {
  const size_t before = memory_use(on_).live;
  memory_ = copy_probe(on_);
  held_ = memory_use(on_).live - before;
}

Scaling Bench::scaling(const Work& work) {
  const Probe gemm_one = gemm_probe(dtype_, 1);
  const Turn turn = turn_of(work.call), on_one_thread = [&turn, all = threads()] {
    set_threads(1);
    const double seconds = turn();
    set_threads(all);
    return seconds;
  };
  const std::vector<Timing> timings =
      in_turns({gemm_->turn, gemm_one.turn, turn, on_one_thread}, repeats());
  return {timings[3], timings[2], gemm_->rate(timings[0]) / gemm_one.rate(timings[1])};
}

static double median_of(const std::vector<Measured>& rows, double Measured::*rate) {
  Timing all;
  for (const Measured& row : rows) all.add(row.*rate);
  return all.median();
}
double Bench::peak_rate() const { return median_of(rows_, &Measured::peak_rate); }
double Bench::gemm_rate() const { return median_of(rows_, &Measured::gemm_rate); }
double Bench::memory_rate() const { return median_of(rows_, &Measured::memory_rate); }

// ---- JSON ----

static double load() {
  double average = 0;
  return getloadavg(&average, 1) == 1 ? average : 0;
}

static double rounded(double x, double step) { return std::round(x / step) * step; }
static ordered_json percent(double part) { return rounded(100 * part, 0.1); }

ordered_json to_json(const Measured& row) {
  ordered_json json = {{"median_s", row.time.median()},
                       {"min_s", row.time.min()},
                       {"quartiles_s", {row.time.quantile(0.25), row.time.quantile(0.75)}},
                       {"max_s", row.time.quantile(1)},
                       {"repeats", row.time.turns()},
                       {"dropped", row.dropped}};
  if (row.flops > 0) {
    json["flops"] = row.flops;
    json["gflops_per_s"] = row.flop_rate() / 1e9;
    if (row.peak_rate > 0) {
      json["percent_of_peak"] = percent(row.flop_rate() / row.peak_rate);
      json["percent_of_gemm"] = percent(row.flop_rate() / row.gemm_rate);
    }
  }
  json["bytes"] = row.bytes;
  json["gb_per_s"] = row.byte_rate() / 1e9;
  if (row.memory_rate > 0) json["percent_of_memory"] = percent(row.byte_rate() / row.memory_rate);
  json["peak_tensor_bytes"] = row.tensor_bytes;
  json["allocations_per_call"] = row.allocations;
  if (const Counts& c = row.device; c.dispatches > 0)
    json["device"] = {{"dispatches", c.dispatches},
                      {"barriers", c.barriers},
                      {"submissions", c.submissions},
                      {"reads", c.reads},
                      {"written", c.written},
                      {"read", c.read},
                      {"recording_us", c.recording_us()}};
  return json;
}

ordered_json to_json(const Scaling& s) {
  return {{"one_thread_median_s", s.one.median()},
          {"median_s", s.all.median()},
          {"gain", s.gain()},
          {"gemm_gain", s.gemm},
          {"gain_of_gemm_gain", s.gain() / s.gemm}};
}

void print(const Scaling& s) {
  std::printf("threads     %s on one, %s on %d: %s times as fast; products that share nothing %s\n",
              time_text(s.one.median()).c_str(), time_text(s.all.median()).c_str(), threads(),
              digits(s.gain()).c_str(), digits(s.gemm).c_str());
}

double resident_mb(const Measured& row) {
  return rounded(static_cast<double>(row.resident) / (1 << 20), 0.1);
}

ordered_json Bench::machine() const {
  if (!is_processor())
    return {{"on", on_.name()},
            {"dtype", name_of(dtype_)},
            {"memory_gb_per_s", memory_rate() / 1e9},
            {"load", load()},
            {"program", program_version()}};
  return {{"threads", threads()},
          {"dtype", name_of(dtype_)},
          {"peak_gflops_per_s", peak_rate() / 1e9},
          {"peak_gflops_per_s_one_thread", peak_rate_one_thread_ / 1e9},
          {"gemm_gflops_per_s", gemm_rate() / 1e9},
          {"gemm_gflops_per_s_one_thread", gemm_rate_one_thread_ / 1e9},
          {"gemm_percent_of_peak", percent(gemm_rate() / peak_rate())},
          {"gemm_kernel", gemm_kernel()},
          {"memory_gb_per_s", memory_rate() / 1e9},
          {"load", load()},
          {"kernels", kernel_names()},
          {"program", program_version()}};
}

// ---- For people ----

std::string digits(double x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, std::abs(x) >= 100 ? "%.0f" : "%.3g", x);
  return buffer;
}

std::string time_text(double seconds) {
  if (seconds >= 1) return digits(seconds) + " s";
  if (seconds >= 1e-3) return digits(1e3 * seconds) + " ms";
  return digits(1e6 * seconds) + " µs";
}

void Bench::print_device() const {
  std::printf("memory  %s GB/s (copies on %s)\n\n", digits(memory_rate() / 1e9).c_str(),
              on_.name());
  Table table(1);
  table.add({"a call", "dispatches", "barriers", "submissions", "reads", "written", "read",
             "to record a dispatch"});
  for (const Measured& row : rows_) {
    const Counts& c = row.device;
    table.add({row.name, text(c.dispatches), text(c.barriers), text(c.submissions), text(c.reads),
               size_text(c.written), size_text(c.read), digits(c.recording_us()) + " µs"});
  }
  table.print();
}

void Bench::print() const {
  Table table(1);
  table.add({"", "time", "first quartile", "third", "GFLOP/s", "of peak", "of GEMM", "GB/s",
             "of memory", "tensors hold"});
  const auto share = [](double rate, double of) {
    return of > 0 && rate > 0 ? digits(100 * rate / of) + "%" : "";
  };
  for (const Measured& row : rows_) {
    const double rate = row.flop_rate();
    table.add({row.name, time_text(row.time.median()), time_text(row.time.quantile(0.25)),
               time_text(row.time.quantile(0.75)), rate > 0 ? digits(rate / 1e9) : "",
               share(rate, row.peak_rate), share(rate, row.gemm_rate),
               digits(row.byte_rate() / 1e9), share(row.byte_rate(), row.memory_rate),
               size_text(row.tensor_bytes)});
  }
  table.print();
  if (!is_processor()) return print_device();
  const auto rates = [](const char* name, double one_thread, double all) {
    std::printf("%-7s %s GFLOP/s on one thread", name, digits(one_thread / 1e9).c_str());
    if (threads() > 1) std::printf(", %s on %d", digits(all / 1e9).c_str(), threads());
  };
  rates("peak", peak_rate_one_thread_, peak_rate());
  std::printf(" (%s, products and sums that wait for nothing)\n", name_of(dtype_));
  rates("GEMM", gemm_rate_one_thread_, gemm_rate());
  std::printf(", %s of peak (%ld x %ld by the BLAS, kernel %s)\n",
              share(gemm_rate(), peak_rate()).c_str(), gemm_size, gemm_size, gemm_kernel().c_str());
  for (const Measured& row : rows_)
    if (row.dropped > 0)
      std::printf(
          "dropped %d of %d turns of %s, beside which the peak was below 93%% of its best\n",
          row.dropped, row.dropped + static_cast<int>(row.time.turns()), row.name.c_str());
  std::printf("memory  %s GB/s (y += a x over 192 MiB)\n", digits(memory_rate() / 1e9).c_str());
  std::printf("load    %s (average of the last minute, this program included)\n",
              digits(load()).c_str());
  if (const std::string warning = kernel_warning(inspect_machine()); !warning.empty())
    std::printf("warning: %s\n", warning.c_str());
}

}  // namespace tete
