// tete check: gradients against central differences in float64, of operations and of texts.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "attention/gradcheck.hpp"
#include "core/check/samples.hpp"
#include "tools/against.hpp"
#include "tools/json_number.hpp"
#include "tools/model.hpp"
#include "tools/options.hpp"
#include "tools/uses.hpp"

namespace tete {

struct CheckOptions {
  std::vector<std::string> targets = {"all"};
  int order = 1;
  Index block = 0;
  std::vector<std::string> dim, with, use;
  uint64_t seed = 0;
  int threads = 0;
  DeviceOptions device;
  bool json = false;
  std::string against, mask = "none";
  double tolerance = 0;

  Backend* on = nullptr;  // --device, if that is not the processor

  GradCheckOptions of_gradients() const {
    return {.order = order, .tolerance = on ? 1e-4 : 1e-6, .device = on, .key = Key(seed)};
  }
};

// ---- JSON ----

using nlohmann::ordered_json;

// JSON has no NaN and no infinity.
static ordered_json to_json(const Slope& slope) {
  ordered_json json = {{"analytic", json_number(slope.analytic)},
                       {"numeric", json_number(slope.numeric)},
                       {"error", json_number(slope.error)}};
  if (slope.of_entry) json["entry"] = slope.entry;
  if (!slope.result.empty()) json["result"] = slope.result;
  return json;
}

static ordered_json to_json(const InputReport& input) {
  ordered_json json = {{"name", input.input},
                       {"dims", input.dims},
                       {"shape", std::vector<Index>(input.shape.begin(), input.shape.end())},
                       {"order", input.order},
                       {"verdict", name_of(input.verdict)},
                       {"error", json_number(input.error)},
                       {"direction", to_json(input.along)},
                       {"worst", to_json(input.worst)},
                       {"place", input.place()},
                       {"compared", input.compared},
                       {"kinks", input.kinks}};
  for (const CurvePoint& p : input.curve.points)
    json["curve"].push_back({{"step", p.step},
                             {"numeric", json_number(p.numeric)},
                             {"before", json_number(p.before)},
                             {"after", json_number(p.after)},
                             {"error", json_number(p.error)}});
  return json;
}

static ordered_json to_json(const Fault& fault) {
  return {{"sentence", fault.sentence()}, {"operation", fault.operation}, {"rule", fault.rule},
          {"value", fault.value},         {"line", fault.line},           {"order", fault.order}};
}

// ---- The table ----

// A row for each variant that was checked; for one that fails, or was asked for by name, a row for
// every input.
class CheckTable {
 public:
  // `are_texts`: each target is a text that the caller named.
  CheckTable(const CheckOptions& o, bool are_texts)
      : o_(o), are_texts_(are_texts), detailed_(are_texts && !o.on) {
    if (o_.json || detailed_) return;
    std::printf("%-44s ", "");
    for (int order = 1; order <= o_.order; ++order) std::printf("  order %d ", order);
    std::printf(" worst input\n");
  }
  void run(const std::string& name, const std::function<GradReport()>& check) {
    GradReport report;
    std::string trouble;
    try {
      report = check();
    } catch (const Error& error) {
      const bool is_of_input = are_texts_ && error.kind() == ErrorKind::input;
      if (detailed_ || is_of_input) throw;  // it is about what the caller gave
      trouble = error.what();
    }
    const bool passed = trouble.empty() && report.passed();
    ++(passed ? passed_ : failed_);
    if (o_.json) add_json(name, report, trouble);
    else if (!trouble.empty()) std::printf("%-44s FAILED\n    %s\n", name.c_str(), trouble.c_str());
    else print(name, report);
    std::fflush(stdout);
  }
  // Says that something is not checked, and why.
  void omit(const std::string& name, const std::string& reason) {
    if (o_.json) omitted_.push_back({{"name", name}, {"reason", reason}});
    else std::printf("%-44s not checked: %s\n", name.c_str(), reason.c_str());
  }
  // The exit code.
  int finish() {
    if (o_.json) {
      const ordered_json all = {{"order", o_.order},
                                {"passed", passed_},
                                {"failed", failed_},
                                {"rows", rows_},
                                {"omitted", omitted_}};
      std::cout << all.dump(2) << "\n";
    } else {
      std::printf("%d passed, %d failed (relative error at most %s", passed_, failed_,
                  number_text(o_.of_gradients().tolerance).c_str());
      std::printf(o_.order > 1 ? ", ten times that at each further order)\n" : ")\n");
    }
    return failed_ == 0 ? 0 : static_cast<int>(ErrorKind::check);
  }

 private:
  // The input whose verdict is worst, then whose error is.
  static const InputReport* worst_of(const GradReport& report) {
    const auto worst = std::max_element(
        report.inputs.begin(), report.inputs.end(), [](const InputReport& a, const InputReport& b) {
          return std::pair(is_fault(a.verdict), a.error) < std::pair(is_fault(b.verdict), b.error);
        });
    return worst == report.inputs.end() ? nullptr : &*worst;
  }

  void print(const std::string& name, const GradReport& report) const {
    if (detailed_) {
      std::cout << name << "\n" << report << "\n";
      return;
    }
    std::printf("%-44s ", name.c_str());
    for (int order = 1; order <= o_.order; ++order)
      std::printf("%9.1e ", report.worst_of_order(order));
    const InputReport* const worst = worst_of(report);
    std::printf(" %-12s %s\n", worst ? worst->input.c_str() : "",
                report.passed() ? "ok" : "FAILED");
    if (o_.on)
      for (const InputReport& input : report.inputs)
        if (is_fault(input.verdict))
          std::printf("    %s: its norm is %s there and %s here, apart by %.1e of it\n",
                      input.input.c_str(), number_text(input.worst.analytic, 6).c_str(),
                      number_text(input.worst.numeric, 6).c_str(), input.error);
    if (!report.passed() && !o_.on) std::cout << report << "\n";
  }

  void add_json(const std::string& name, const GradReport& report, const std::string& trouble) {
    ordered_json line = {{"name", name}, {"passed", trouble.empty() && report.passed()}};
    for (int order = 1; trouble.empty() && order <= o_.order; ++order)
      line[text("order_", order)] = json_number(report.worst_of_order(order));
    const InputReport* const worst = worst_of(report);
    line["worst_input"] = worst ? worst->input : "";
    if (!trouble.empty()) line["error"] = trouble;
    if (detailed_ || !report.passed())
      for (const InputReport& input : report.inputs) line["inputs"].push_back(to_json(input));
    if (report.fault) line["fault"] = to_json(*report.fault);
    rows_.push_back(line);
  }

  const CheckOptions& o_;
  bool are_texts_, detailed_;
  int passed_ = 0, failed_ = 0;
  ordered_json rows_ = ordered_json::array(), omitted_ = ordered_json::array();
};

// ---- Operations ----

// "softmax, masked" is a sample of softmax.
static std::string operation_of(const Sample& sample) {
  return sample.name.substr(0, sample.name.find(','));
}

static void check_operations(CheckTable& table, const std::string& only, const CheckOptions& o) {
  for (const Sample& sample : op_samples())
    if (sample.differentiable && (only.empty() || operation_of(sample) == only))
      table.run(sample.name, [&] {
        return check_gradient(sample.apply, sample.inputs(Dtype::f64), o.of_gradients());
      });
}

// ---- Variants and other texts ----

// The reason why a causal mask makes no sense, on one line; "" if it does.
static std::string not_causal(const Checked& program) {
  if (program.leak.empty() && !program.takes_mask) return "no statement takes a causal mask";
  return program.leak.substr(0, program.leak.find('\n'));
}

// True for attention from X to M that is no stack of it.
static bool is_attention(const Checked& program) {
  const bool repeats = std::any_of(program.calls.begin(), program.calls.end(),
                                   [](const CheckedCall& call) { return call.repeated >= 0; });
  return (program.self_only || program.has_memory()) && !repeats && not_attention(program).empty();
}

static bool reads_tokens(const Checked& program) {
  return std::any_of(program.inputs.begin(), program.inputs.end(),
                     [&](int input) { return program.values[input].below >= 0; });
}

// `all`: an order at which a text is too large is omitted.
static void check_text(CheckTable& table, const std::string& name, const CheckOptions& o,
                       bool all = false) {
  SizesByName given;
  for (const std::string& setting : o.dim) set_dim(given, setting);
  const auto program = load_text(name, o.with, o.use);
  AttentionCheck check{.block = o.block, .options = o.of_gradients()};
  std::function<GradReport()> run;
  if (is_attention(*program)) {
    const AttentionSizes sizes = sizes_to_check(program, given, check);
    run = [=, &check] { return check_gradient(program, sizes, check); };
  } else {
    const SizesByName sizes = text_sizes_to_check(program, given, o.order);
    int& order = check.options.order;
    for (; all && order > 1 && !is_quick_to_check(program, sizes, order); --order)
      table.omit(text(name, ", order ", order), "at its smallest it takes too long");
    run = [=, &check] { return check_text_gradient(program, sizes, check); };
  }
  table.run(name, run);
  if (reads_tokens(*program) || program->causal) return;  // the text says itself what is causal
  check.causal = true;
  const std::string reason = not_causal(*program);
  if (!reason.empty()) table.omit(name + ", causal", reason);
  else table.run(name + ", causal", run);
}

// ---- The verb ----

static std::set<std::string> operations() {
  std::set<std::string> names;
  for (const Sample& sample : op_samples()) names.insert(operation_of(sample));
  return names;
}

static std::vector<std::string> names_of_texts() {
  std::vector<std::string> names;
  for (const std::vector<Variant>* shelf : {&variants(), &blocks(), &models()})
    for (const Variant& text : *shelf) names.push_back(text.name);
  return names;
}

static bool names_text(const std::string& target) {
  const std::vector<std::string> names = names_of_texts();
  return is_program_path(target) || std::find(names.begin(), names.end(), target) != names.end();
}

// Anything that is neither a text nor an operation is an error with the nearest of them.
static void check_target(CheckTable& table, const std::string& target, const CheckOptions& o) {
  if (target == "ops" || target == "all") check_operations(table, "", o);
  if (target == "ops") return;
  if (target == "all") {
    for (const std::string& name : names_of_texts()) check_text(table, name, o, true);
    return;
  }
  if (names_text(target)) return check_text(table, target, o);
  const std::set<std::string> ops = operations();
  std::vector<std::string> names(ops.begin(), ops.end());
  names.insert(names.end(), {"all", "ops"});
  for (const std::string& name : names_of_texts()) names.push_back(name);
  if (!ops.contains(target))
    bad_input("'", target, "' is neither a text (tete list) nor an operation",
              suggestion(target, names), "; a file is given by a path that ends in .tete");
  check_operations(table, target, o);
}

static int check_gradients(CheckOptions& o) {
  if (o.order < 1 || o.order > 3) bad_input("--order ", o.order, ": expected 1, 2 or 3");
  if (o.block < 0) bad_input("--block ", o.block, ": expected at least 1, or 0: no blocks");
  use_threads(o.threads);
  const DeviceInUse device(o.device);
  if (&*device != &cpu()) o.on = &*device;
  if (o.on && o.order > 1) bad_input("--device is for gradients of order 1, got --order ", o.order);
  CheckTable table(o, std::all_of(o.targets.begin(), o.targets.end(), names_text));
  for (const std::string& target : o.targets) check_target(table, target, o);
  return table.finish();
}

static int check_theirs(const CheckOptions& o) {
  if (o.targets.size() != 1 || !names_text(o.targets[0]))
    bad_input("--against is for one variant or text, got '", o.targets[0], "'",
              o.targets.size() > 1 ? " and more" : "");
  use_threads(o.threads);
  return check_against({.target = o.targets[0],
                        .path = o.against,
                        .text = {.with = o.with, .dim = o.dim, .use = o.use, .mask = o.mask},
                        .tolerance = o.tolerance,
                        .json = o.json});
}

Run check_verb(CLI::App& app) {
  auto o = std::make_shared<CheckOptions>();
  take_words(
      app.add_option("TARGET", o->targets,
                     "variants, models and their blocks, files, operations; ops: all of these; "
                     "all: everything [all]"));
  app.add_option("--order", o->order,
                 "2 checks the gradient of the gradient, too; 3, its gradient as well")
      ->type_name("N")
      ->capture_default_str();
  app.add_option(
         "--block", o->block,
         "check variants as training computes them, in blocks of N queries; there are 3 queries, "
         "5 under a causal mask, or what --dim n= and m= say (0: as a whole)")
      ->type_name("N")
      ->capture_default_str();
  add_amendments(app, o->with, o->dim);
  add_uses(app, o->use);
  app.add_option("--seed", o->seed, "random seed of the directions")
      ->type_name("N")
      ->capture_default_str();
  CLI::Option* against =
      app.add_option("--against", o->against,
                     "compare somebody else's implementation of one variant instead: "
                     "safetensors with its inputs, parameters, intermediates, output and gradients "
                     "(grad:NAME), under the names of the text")
          ->type_name("FILE")
          ->excludes("--order")
          ->excludes("--block")
          ->excludes("--seed");
  add_mask(app, o->mask)->needs(against);
  app.add_option(
         "--tolerance", o->tolerance,
         "of --against: largest error, relative to the tensor's largest entry (default: what "
         "rounding to the precision of their file explains)")
      ->type_name("X")
      ->needs(against);
  add_threads(app, o->threads);
  add_device(app, o->device);
  app.add_flag("--json", o->json, "the table as JSON");
  app.footer(
      "Each gradient is compared with central differences in float64, along random\n"
      "directions and entry by entry (from 0): relative errors are at most 1e-6 at\n"
      "order 1, 1e-5 at order 2, 1e-4 at order 3; otherwise the exit code is 1. What\n"
      "differs is shown at each step size, and the operation whose own rule is wrong is\n"
      "looked for. Where a function has a kink (relu at 0, the maximum of equals) no\n"
      "gradient is wrong: kinks are told and not counted. Sizes are small and fit the\n"
      "text; --dim sets them, n and m, too. Under a causal mask there are m queries.\n"
      "With --device another than cpu, values and gradients are computed there, in\n"
      "float32, and held against the processor's, in float64: to 1e-4 of each norm.\n\n"
      "Examples:\n"
      "  tete check all --order 2\n"
      "  tete check mine.tete --dim h_k=2 --with bias.tete\n"
      "  tete check softmax einsum\n"
      "  tete check all --device vulkan:0\n"
      "  tete check talking_heads --against theirs.safetensors --mask causal");
  return [o] { return o->against.empty() ? check_gradients(*o) : check_theirs(*o); };
}

}  // namespace tete
