// tete bench optimizer: one update of every parameter, beside the time to read and write them.
#include "train/optimizer.hpp"

#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/bench/nouns.hpp"
#include "tools/bench/report.hpp"
#include "train/machine.hpp"

namespace tete {

using nlohmann::ordered_json;

namespace {

struct OptimizerOptions {
  BenchOptions bench;
  std::vector<std::string> optimizers;
  Index parameters = 50'000'000;
};

// Matrices of 1024 x 4096, as many as come nearest; one smaller where that is too much.
std::vector<ParamSpec> matrices(Index parameters) {
  constexpr Index rows = 1024, columns = 4096;
  const Index count = (parameters + rows * columns / 2) / (rows * columns);
  const Shape one{128, std::max<Index>(1, parameters / 128)};
  std::vector<ParamSpec> specs;
  for (Index i = 0; i < std::max<Index>(1, count); ++i)
    specs.push_back({.name = text("W", i),
                     .dims = {"d_in", "d_out"},
                     .shape = count > 0 ? Shape{rows, columns} : one,
                     .init = {}});
  return specs;
}

struct OptimizerRun {
  std::string name;
  size_t state = 0;  // bytes
};

OptimizerRun measure(const OptimizerRow& row, const std::vector<ParamSpec>& specs, Backend& on,
                     Bench& bench) {
  const std::unique_ptr<Optimizer> optimizer = row.make(specs, Dtype::f32, on);
  Tensors values, gradients;
  double numbers = 0;
  for (const ParamSpec& spec : specs) {
    const Key key = Key(0).fold(spec.name);
    values.push_back(random_normal(spec.shape, key.fold("value"), Dtype::f32, on) * 0.02);
    gradients.push_back(random_normal(spec.shape, key.fold("gradient"), Dtype::f32, on) * 1e-3);
    numbers += static_cast<double>(element_count(spec.shape));
  }
  const size_t state = bytes_of(optimizer->state);
  int64_t step = 0;
  // Read: parameters, gradients and state; written: parameters and state.
  bench.add({.name = row.name,
             .call = [&] { optimizer->update(specs, values, gradients, 1e-3, step++); },
             .bytes = 3 * sizeof(float) * numbers + 2 * static_cast<double>(state)});
  return {row.name, state};
}

double times_limit(const Measured& row) { return row.memory_rate / row.byte_rate(); }

void print(const std::vector<OptimizerRun>& runs, const Bench& bench, Index parameters) {
  std::printf("%s parameters in matrices, f32\n\n",
              count_text(static_cast<double>(parameters)).c_str());
  bench.print();
  for (size_t i = 0; i < runs.size(); ++i)
    std::printf("%-10s  %s of state%s\n", runs[i].name.c_str(), size_text(runs[i].state).c_str(),
                bench.rows()[i].memory_rate > 0
                    ? text("; an update takes ", digits(times_limit(bench.rows()[i])),
                           " times as long as its bytes need once")
                          .c_str()
                    : "");
}

int bench_update(const OptimizerOptions& o) {
  std::vector<const OptimizerRow*> rows;
  for (const std::string& name : o.optimizers) rows.push_back(&find_optimizer(name));
  if (rows.empty())
    for (const OptimizerRow& row : optimizers()) rows.push_back(&row);
  use_threads(o.bench.threads);
  const DeviceInUse device(o.bench.device);
  const std::vector<ParamSpec> specs = matrices(o.parameters);
  Index parameters = 0;
  for (const ParamSpec& spec : specs) parameters += element_count(spec.shape);
  // Values, gradients, and two moments or the next values.
  check_memory(text("--parameters ", o.parameters),
               4 * sizeof(float) * static_cast<size_t>(parameters), *device);
  Bench bench(o.bench, Dtype::f32, *device);
  std::vector<OptimizerRun> runs;
  for (const OptimizerRow* row : rows) runs.push_back(measure(*row, specs, *device, bench));
  if (!o.bench.json) {
    print(runs, bench, parameters);
    return 0;
  }
  ordered_json json = {{"bench", "optimizer"}, {"parameters", parameters}};
  for (size_t i = 0; i < runs.size(); ++i) {
    ordered_json row = {{"name", runs[i].name}, {"state_bytes", runs[i].state}};
    row.update(to_json(bench.rows()[i]));
    if (bench.rows()[i].memory_rate > 0) row["times_memory_limit"] = times_limit(bench.rows()[i]);
    json["rows"].push_back(row);
  }
  json.update(bench.machine());
  std::cout << json.dump(2) << "\n";
  return 0;
}

}  // namespace

Run bench_optimizer(CLI::App& app) {
  auto o = std::make_shared<OptimizerOptions>();
  add_list(app, "--optimizer", o->optimizers, "adafactor or adam (default: each)")
      ->type_name("NAME");
  add_whole(app, "--parameters", o->parameters, 1, int64_t{1} << 34, "numbers, in matrices");
  add_device(app, o->bench.device);
  add_bench_options(app, o->bench);
  app.footer(
      "Bytes are those of parameters and gradients read, of parameters written, and of\n"
      "the optimizer's state read and written, each once.\n\n"
      "Example:\n"
      "  tete bench optimizer --parameters 50000000 --optimizer adafactor --json");
  return [o] { return bench_update(*o); };
}

}  // namespace tete
