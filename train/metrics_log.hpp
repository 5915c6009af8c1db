// metrics.jsonl, the log of a run: one JSON object a line, flushed with each line.
#pragma once
#include <cstdio>
#include <nlohmann/json_fwd.hpp>

#include "train/loop.hpp"

namespace tete {

class MetricsLog {
 public:
  // Keeps the lines up to that state, so that a resumed run's log is true. All but the state lives
  // as long as the log.
  MetricsLog(const LoopOptions& options, const ParamList& params, const Optimizer& optimizer,
             const Comm& comm, const RunState& state);
  ~MetricsLog() { std::fclose(file_); }
  MetricsLog(const MetricsLog&) = delete;

  void note(const Progress& p, const StepResult& result, double ms);
  // A validation, and what the model wrote with it.
  void note(const Progress& p, const std::vector<WrittenText>& written);

 private:
  using Json = nlohmann::ordered_json;
  std::string lines_up_to(const RunState& state) const;
  void write(const Json& line);
  void write_training(const Progress& p, int64_t tokens, double ms);
  void write_norms(const Progress& p, const std::vector<ParamNorms>& norms);
  void write_validation(const Progress& p);
  void write_samples(const Progress& p, const std::vector<WrittenText>& written);

  const LoopOptions& options_;
  const ParamList& params_;
  const Optimizer& optimizer_;
  const Comm& comm_;
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace tete
