#include "train/metrics_log.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/threads.hpp"
#include "train/json.hpp"

namespace tete {

using Json = nlohmann::ordered_json;

static double memory_in_mb() {
  struct rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_maxrss) / 1024;
}

// Every line begins so.
static Json line_of(const Progress& p, const char* split) {
  return {{"step", p.step},
          {"tokens", p.tokens},
          {"time_s", p.seconds},
          {"wall", static_cast<int64_t>(std::time(nullptr))},
          {"split", split}};
}

MetricsLog::MetricsLog(const LoopOptions& options, const ParamList& params,
                       const Optimizer& optimizer, const Comm& comm, const RunState& state)
    : options_(options),
      params_(params),
      optimizer_(optimizer),
      comm_(comm),
      path_(options.folder + "/metrics.jsonl") {
  const std::string kept = state.step > 0 ? lines_up_to(state) : "";
  replace_file(options.folder, "metrics.jsonl", kept.size(),
               [&](const Write& write) { write(kept); });
  file_ = std::fopen(path_.c_str(), "ae");
  if (!file_) fail(ErrorKind::resource, "cannot write ", path_, ": ", errno_text(errno));
}

void MetricsLog::note(const Progress& p, const StepResult& result, double ms) {
  if (options_.log_tells_of(p.step)) write_training(p, result.tokens, ms);
  if (!result.norms.empty()) write_norms(p, result.norms);
}

void MetricsLog::note(const Progress& p, const std::vector<WrittenText>& written) {
  write_validation(p);
  if (options_.write) write_samples(p, written);
}

std::string MetricsLog::lines_up_to(const RunState& state) const {
  std::string all, kept;
  try {
    all = read_file(path_);
  } catch (const Error&) {
    return "";  // another folder's checkpoint: this log begins here
  }
  for (size_t at = 0, end; (end = all.find('\n', at)) != std::string::npos; at = end + 1) {
    const Json line = json_or_null(std::string_view(all).substr(at, end - at));
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) continue;
    const auto step = line["step"].get<int64_t>();
    const Json split = line.value("split", Json());
    const bool owed = state.owes_validation && (split == "validation" || split == "samples");
    if (step < state.step + !owed) kept.append(all, at, end + 1 - at);
  }
  return kept;
}

void MetricsLog::write(const Json& line) {
  const std::string shown = line.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (std::fprintf(file_, "%s\n", shown.c_str()) < 0 || std::fflush(file_) != 0)
    fail(ErrorKind::resource, "cannot write ", path_, ": ", errno_text(errno));
}

void MetricsLog::write_training(const Progress& p, int64_t tokens, double ms) {
  Json line = line_of(p, "train");
  const EffectiveRate effective = optimizer_.effective_rate();
  line.update({{"loss", p.loss},
               {"loss_tokens", tokens},
               {"lr", p.rate},
               {"lr_eff_min", effective.min},
               {"lr_eff_med", effective.median},
               {"lr_eff_max", effective.max},
               {"grad_norm", p.grad_norm},
               {"grad_norm_clipped", p.grad_norm_clipped},
               {"tok_per_s", p.tokens_per_second},
               {"ms_step", ms},
               {"rss_mb", memory_in_mb()},
               {"ranks", comm_.size()},
               {"threads", threads()}});
  if (p.ranks.ranks > 1)
    line.update({{"optimizer_mb", static_cast<double>(bytes_of(optimizer_.state)) / (1 << 20)},
                 {"comm_s", p.ranks.comm},
                 {"comm_exposed_s", p.ranks.exposed},
                 {"slowest_rank", p.ranks.slowest},
                 {"slowest_ratio", p.ranks.ratio}});
  write(line);
}

void MetricsLog::write_norms(const Progress& p, const std::vector<ParamNorms>& norms) {
  Json line = line_of(p, "norms");
  for (size_t i = 0; i < norms.size(); ++i)
    line["norms"][params_.specs()[i].name] = {norms[i].value, norms[i].gradient, norms[i].update};
  write(line);
}

void MetricsLog::write_validation(const Progress& p) {
  Json line = line_of(p, "validation");
  line.update({{"loss", p.validation_loss}, {"ppl", std::exp(p.validation_loss)}});
  if (!std::isnan(p.accuracy)) line.update({{"acc", p.accuracy}, {"exact_match", p.exact_match}});
  write(line);
}

void MetricsLog::write_samples(const Progress& p, const std::vector<WrittenText>& written) {
  Json line = line_of(p, "samples");
  line["samples"] = Json::array();
  for (const WrittenText& each : written)
    line["samples"].push_back({{"prompt", each.prompt}, {"text", each.text}});
  write(line);
}

}  // namespace tete
