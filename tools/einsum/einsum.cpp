// tete einsum: one einsum on .npy files, and what becomes of it.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/einsum/explain.hpp"
#include "tools/npy.hpp"
#include "tools/options.hpp"
#include "train/machine.hpp"

namespace tete {

using Json = nlohmann::ordered_json;

struct EinsumVerb {
  std::string pattern, out, memory_limit;
  std::vector<std::string> operands;
  bool explain = false, json = false;
  int threads = 0;
};

// ---- Operands ----

// "512x768" or "512x768:f8", which stands for an array in --explain; no value where it is neither.
static std::optional<Tensor> stand_in(const std::string& word, Rehearsal& rehearsal) {
  const size_t colon = std::min(word.find(':'), word.size());
  const std::string type = word.substr(colon);
  if (!type.empty() && type != ":f4" && type != ":f8") return {};
  Shape shape;
  size_t at = 0;
  while (at < colon) {
    const size_t end = std::min(word.find('x', at), colon);
    const std::string size = word.substr(at, end - at);
    if (size.empty() || size.size() > 9 ||
        size.find_first_not_of("0123456789") != std::string::npos)
      return {};
    if (shape.size() == max_rank) return {};
    shape.push_back(std::stoll(size));
    at = end + 1;
  }
  if (shape.empty()) return {};
  return rehearsal.tensor(shape, type == ":f8" ? Dtype::f64 : Dtype::f32);
}

static bool has_file(const std::string& word) {
  std::error_code ignored;
  return std::filesystem::exists(word, ignored);
}

// "64M" -> 64·2^20.
static size_t bytes_of(const std::string& word) {
  if (word.empty()) return SIZE_MAX;
  size_t end = 0;
  double count = -1;
  try {
    count = std::stod(word, &end);
  } catch (const std::exception&) {
  }
  const std::string unit = word.substr(end);
  const std::string units = "KMGT";
  const size_t power = unit.empty() ? 0 : units.find(unit[0]) + 1;
  if (!(count >= 0) || !(count < 1e15) || unit.size() > 1 || (!unit.empty() && power == 0))
    bad_input("--memory-limit ", word, ": expected bytes, as in 500000 or 64M");
  return static_cast<size_t>(count * std::pow(1024.0, static_cast<double>(power)));
}

// ---- What is printed ----

static void print(const EinsumPlan& plan) {
  std::cout << plan.of << ": " << count_text(plan.multiplies)
            << " multiplies (one loop over all: " << count_text(plan.naive_multiplies)
            << "), at most " << size_text(plan.peak_bytes) << " at once\n";
  if (plan.steps.empty()) std::cout << "     nothing is computed: it is a view\n";
  int number = 0;
  for (const EinsumPlan::Step& step : plan.steps) {
    const KernelCall& call = step.call;
    std::printf("%4d %s\n", ++number, step.what.c_str());
    std::printf("     %s, %s: %s multiplies, %s read and written\n", call.form.c_str(),
                call.shape.c_str(), count_text(call.multiplies).c_str(),
                size_text(static_cast<size_t>(call.bytes)).c_str());
    for (const ContractionNote::Copy& copy : call.copies)
      std::printf("     copies %s, %s: %s\n", call.operands[copy.operand].name.c_str(),
                  size_text(copy.bytes).c_str(), copy.why.c_str());
  }
  std::cout << std::flush;
}

static Json as_json(const EinsumPlan& plan) {
  Json steps = Json::array();
  for (const EinsumPlan::Step& step : plan.steps) {
    Json copies = Json::array();
    for (const ContractionNote::Copy& copy : step.call.copies)
      copies.push_back({{"operand", step.call.operands[copy.operand].name},
                        {"bytes", copy.bytes},
                        {"why", copy.why}});
    steps.push_back({{"step", step.what},
                     {"form", step.call.form},
                     {"shape", step.call.shape},
                     {"multiplies", step.call.multiplies},
                     {"bytes", step.call.bytes},
                     {"copies", copies}});
  }
  return {{"of", plan.of},
          {"multiplies", plan.multiplies},
          {"naive_multiplies", plan.naive_multiplies},
          {"peak_bytes", plan.peak_bytes},
          {"steps", steps}};
}

static Json shape_json(const Tensor& y) {
  Json shape = Json::array();
  for (Index size : y.shape()) shape.push_back(size);
  return shape;
}

// A line for each row.
static void print_values(const Tensor& y) {
  constexpr Index most = 1000;
  std::cout << describe(y.dtype(), y.shape()) << "\n";
  if (y.size() > most) {
    std::cout << "(" << y.size() << " numbers; --out FILE.npy writes them)\n";
    return;
  }
  const std::vector<double> values = y.values();
  const size_t row = y.rank() ? static_cast<size_t>(std::max<Index>(1, y.size(y.rank() - 1))) : 1;
  const char* const format = y.dtype() == Dtype::f64 ? "%.17g" : "%.9g";
  for (size_t i = 0; i < values.size(); ++i) {
    char digits[32];
    std::snprintf(digits, sizeof digits, format, values[i]);
    std::cout << digits << (i % row + 1 == row ? "\n" : " ");
  }
}

// ---- The verb ----

static Tensors read_operands(const EinsumVerb& o, Rehearsal& rehearsal, bool& stands_in) {
  Tensors operands;
  for (const std::string& word : o.operands) {
    std::optional<Tensor> shape;
    if (!has_file(word)) shape = stand_in(word, rehearsal);
    if (shape && !o.explain)
      bad_input("'", word, "' is a shape and no file: shapes stand for arrays in --explain only");
    stands_in |= shape.has_value();
    operands.push_back(shape ? *shape : read_npy(word));
  }
  return operands;
}

static int einsum_command(const EinsumVerb& o) {
  use_threads(o.threads);
  const EinsumOptions options{.memory_limit = bytes_of(o.memory_limit)};
  const Pattern pattern = Pattern::parse(o.pattern);
  Rehearsal rehearsal;
  bool stands_in = false;
  const Tensors operands = read_operands(o, rehearsal, stands_in);
  if (stands_in && !o.out.empty()) bad_input("--out needs files, not shapes, as operands");
  std::vector<EinsumPlan> plans;
  if (o.explain) plans = explain_einsum(pattern, operands, options);
  Tensor y;
  reset_peak_memory();
  if (!stands_in) y = einsum(pattern, operands, options);
  const size_t used = memory_use().peak;
  if (!o.out.empty()) write_npy(o.out, y), speak_beside(o.out);
  Json answer;
  if (o.explain) answer["plans"] = Json::array();
  for (const EinsumPlan& plan : plans)
    if (o.json) answer["plans"].push_back(as_json(plan));
    else print(plan);
  if (!stands_in) {
    answer["shape"] = shape_json(y);
    answer["used_bytes"] = used;
    if (o.json && o.out.empty() && !o.explain) answer["values"] = y.values();
    if (!o.json && o.explain) std::cout << "the value took " << size_text(used) << " at once\n";
    if (!o.json && !o.explain && o.out.empty()) print_values(y);
    if (!o.json && !o.out.empty())
      std::cout << o.out << ": " << describe(y.dtype(), y.shape()) << "\n";
  }
  if (o.json) std::cout << answer.dump(2) << "\n";
  return 0;
}

Run einsum_verb(CLI::App& app) {
  auto o = std::make_shared<EinsumVerb>();
  app.add_option("PATTERN", o->pattern, "\"b n d, d k -> b n k\", or \"ij,jk\" as NumPy has it")
      ->required();
  app.add_option("OPERAND", o->operands,
                 ".npy files of f4 or f8; with --explain also shapes: 512x64");
  app.add_option("--out", o->out, "write the result there")->type_name("FILE");
  app.add_flag("--explain", o->explain,
               "show how the value and each gradient are computed, step by step, with costs");
  app.add_option("--memory-limit", o->memory_limit, "limit of the largest intermediate result: 64M")
      ->type_name("BYTES");
  add_threads(app, o->threads);
  app.add_flag("--json", o->json, "as JSON");
  app.footer(
      "A name twice in one operand takes the diagonal, '...' stands for any dimensions,\n"
      "\"(h d)\" splits or merges; without -> the result has what stands once.\n\n"
      "Examples:\n"
      "  tete einsum \"ij,jk->ik\" A.npy B.npy --out C.npy\n"
      "  tete einsum \"b n d_k h, b m d_k h, h k -> b n m k\" \\\n"
      "    4x512x64x12 4x512x64x12 12x12 --explain");
  return [o] { return einsum_command(*o); };
}

}  // namespace tete
