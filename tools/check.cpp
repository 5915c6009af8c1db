// tete check: gradients against central differences in float64, of operations and of variants.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/gradcheck.hpp"
#include "core/ops.hpp"
#include "core/samples.hpp"
#include "tools/model.hpp"
#include "tools/options.hpp"

namespace tete {

static constexpr double tolerances[] = {1e-6, 1e-5};  // relative, of order 1 and 2

struct CheckOptions {
  std::vector<std::string> targets = {"all"};
  int order = 1;
  std::vector<std::string> dim, with;
  uint64_t seed = 0;
  int threads = 0;
  bool json = false;
};

// One thing whose gradient is checked: a function of float64 inputs.
struct Candidate {
  std::string name;
  std::function<Tensor(const Tensors&)> apply = {};
  Tensors inputs = {};
  std::vector<std::string> input_names = {};
};

struct Row {
  std::string name, worst_input = {}, trouble = {};
  double error[2] = {0, 0};
  bool passed = true;
};

static Row check_one(const Candidate& candidate, const CheckOptions& o) {
  Row row{.name = candidate.name};
  GradCheckOptions options{.order = o.order, .key = Key(o.seed), .names = candidate.input_names};
  GradReport report;
  try {
    report = check_gradient(candidate.apply, candidate.inputs, options);
  } catch (const Error& error) {
    row.passed = false;
    row.trouble = error.what();
    return row;
  }
  double worst = -1;
  for (const InputReport& input : report.inputs) {
    double& error = row.error[input.order - 1];
    error = std::max(error, input.error);
    const double share = input.error / tolerances[input.order - 1];
    if (share <= worst) continue;
    worst = share;
    row.worst_input = input.input;
  }
  row.passed = worst <= 1;
  return row;
}

// ---- The table ----

class CheckTable {
 public:
  CheckTable(const CheckOptions& o) : o_(o) {
    if (o_.json) return;
    std::printf("%-44s %9s ", "", "order 1");
    if (o_.order == 2) std::printf("%9s ", "order 2");
    std::printf(" worst input\n");
  }
  void run(const Candidate& candidate) {
    const Row row = check_one(candidate, o_);
    ++(row.passed ? passed_ : failed_);
    o_.json ? add_json(row) : print(row);
  }
  // The exit code.
  int finish() {
    if (o_.json) {
      const nlohmann::ordered_json all = {
          {"order", o_.order}, {"passed", passed_}, {"failed", failed_}, {"rows", rows_}};
      std::cout << all.dump(2) << "\n";
    } else {
      std::printf("%d passed, %d failed (relative error at most %g", passed_, failed_,
                  tolerances[0]);
      if (o_.order == 2) std::printf(", of order 2 at most %g", tolerances[1]);
      std::printf(")\n");
    }
    return failed_ == 0 ? 0 : static_cast<int>(Kind::check);
  }

 private:
  void print(const Row& row) const {
    std::printf("%-44s ", row.name.c_str());
    if (row.trouble.empty()) {
      for (int order = 1; order <= o_.order; ++order) std::printf("%9.1e ", row.error[order - 1]);
      std::printf(" %-12s %s\n", row.worst_input.c_str(), row.passed ? "ok" : "FAILED");
    } else {
      std::printf("FAILED\n    %s\n", row.trouble.c_str());
    }
    std::fflush(stdout);
  }
  void add_json(const Row& row) {
    nlohmann::ordered_json line = {{"name", row.name}, {"passed", row.passed}};
    for (int order = 1; order <= o_.order; ++order)
      if (std::isfinite(row.error[order - 1])) line[text("order_", order)] = row.error[order - 1];
    line["worst_input"] = row.worst_input;
    if (!row.trouble.empty()) line["error"] = row.trouble;
    rows_.push_back(line);
  }

  const CheckOptions& o_;
  int passed_ = 0, failed_ = 0;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

// ---- Operations ----

// "softmax, masked" is a sample of softmax.
static std::string operation_of(const Sample& sample) {
  return sample.name.substr(0, sample.name.find(','));
}

static void check_operations(CheckTable& table, const std::string& only) {
  for (const Sample& sample : op_samples())
    if (sample.differentiable && (only.empty() || operation_of(sample) == only))
      table.run({sample.name, sample.apply, sample.inputs(Dtype::f64)});
}

// ---- Variants ----

// Odd sizes, all different: a dimension that is mistaken for another does not fit.
static constexpr Index queries = 3, memories = 5, batch = 2, width = 6, head_count = 3;

// The variant on X[b, n, d] and M[b, m, d], with every parameter an input of the check.
static Candidate attention_candidate(const std::string& name, const ModelSettings& settings,
                                     const std::shared_ptr<const Checked>& program, bool causal) {
  auto params = std::make_shared<ParamList>();
  AttentionSizes sizes = attention_sizes(settings, *program);
  const auto attention = std::make_shared<Attention>(Scope{*params}, program, sizes);
  const bool self = program->self_only || causal;
  const Key key(1);
  Candidate candidate{.name = name + (causal ? ", causal" : "")};
  const auto add = [&](const std::string& input, const Shape& shape, double scale) {
    candidate.input_names.push_back(input);
    candidate.inputs.push_back(random_normal(shape, key.fold(input), Dtype::f64) * scale);
  };
  for (const ParamSpec& spec : params->specs()) add(spec.name, spec.shape, 0.7);
  add("X", {batch, self ? memories : queries, settings.d_model}, 1);
  if (!self) add("M", {batch, memories, settings.d_model}, 1);
  candidate.apply = [=](const Tensors& in) {
    const size_t count = params->specs().size();
    const Tensors values(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count));
    const Forward forward{.params = values};
    return (*attention)(forward, "", in[count], in.back(), {.causal = causal});
  };
  return candidate;
}

static void check_variant(CheckTable& table, const std::string& name, const CheckOptions& o) {
  ModelSettings settings;
  settings.attention = read_text(name);
  for (const std::string& path : o.with) settings.with.push_back(read_text(path));
  settings.d_model = width;
  for (const std::string& setting : o.dim) set_dim(settings.dims, setting);
  const auto program = make_attention(settings);
  if (program->find_dimension("h") >= 0 && !settings.dims.contains("h"))
    settings.dims["h"] = head_count;
  table.run(attention_candidate(name, settings, program, false));
  if (program->takes_mask && program->leak.empty())
    table.run(attention_candidate(name, settings, program, true));
}

// ---- The verb ----

static std::set<std::string> operations() {
  std::set<std::string> names;
  for (const Sample& sample : op_samples()) names.insert(operation_of(sample));
  return names;
}

// A variant, a file or an operation; anything else is an error with the nearest of them.
static void check_target(CheckTable& table, const std::string& target, const CheckOptions& o) {
  const std::set<std::string> ops = operations();
  if (target == "ops" || target == "all") check_operations(table, "");
  if (target == "ops") return;
  if (target == "all") {
    for (const Variant& variant : variants()) check_variant(table, variant.name, o);
    return;
  }
  std::vector<std::string> names(ops.begin(), ops.end());
  names.insert(names.end(), {"all", "ops"});
  bool is_variant = target.find('/') != std::string::npos || target.ends_with(".tete");
  for (const Variant& variant : variants()) {
    names.push_back(variant.name);
    is_variant |= variant.name == target;
  }
  if (!is_variant && !ops.contains(target))
    bad_input("'", target, "' is neither a variant (tete list) nor an operation",
              suggestion(target, names), "; a file is given by a path that ends in .tete");
  if (is_variant) check_variant(table, target, o);
  else check_operations(table, target);
}

static int check_gradients(const CheckOptions& o) {
  if (o.order != 1 && o.order != 2) bad_input("--order ", o.order, ": expected 1 or 2");
  use_threads(o.threads);
  CheckTable table(o);
  for (const std::string& target : o.targets) check_target(table, target, o);
  return table.finish();
}

Run check_verb(CLI::App& app) {
  auto o = std::make_shared<CheckOptions>();
  app.add_option("TARGET", o->targets,
                 "variants, files, operations; ops: all of these; all: everything [all]");
  app.add_option("--order", o->order, "2: the gradient of the gradient, too")
      ->type_name("N")
      ->capture_default_str();
  for (const auto& [name, values, type, what] :
       {std::tuple{"--dim", &o->dim, "NAME=SIZE", "a size of the variant's text; may be repeated"},
        std::tuple{"--with", &o->with, "FILE", "amend the variant; may be repeated"}})
    app.add_option(name, *values, what)
        ->type_name(type)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--seed", o->seed, "of the directions that are looked along")
      ->type_name("N")
      ->capture_default_str();
  add_threads(app, o->threads);
  app.add_flag("--json", o->json, "the table as JSON");
  app.footer(
      "Relative errors against central differences in float64: at most 1e-6 at order\n"
      "1, 1e-5 at order 2; otherwise the exit code is 1.\n\n"
      "Examples:\n"
      "  tete check all --order 2\n"
      "  tete check mine.tete --dim h_k=2 --with bias.tete\n"
      "  tete check softmax einsum");
  return [o] { return check_gradients(*o); };
}

}  // namespace tete
