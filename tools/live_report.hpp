// A run's live report, written beside its log. It is made from the log alone, so it is right for a
// resumed run, too:
//   report.html          curves, norms of each parameter, samples; loads itself again while it runs
//   metrics.csv          the lines of the log that are numbers
//   norms.csv            of each parameter: its norm, its gradient's, its update's
//   events.out.tfevents.0.tete   the same numbers for TensorBoard
#pragma once
#include <cstdio>
#include <memory>

#include "train/loop.hpp"

namespace tete {

// Passes everything on.
class PassOn : public Reporter {
 public:
  explicit PassOn(Reporter& inner) : inner_(inner) {}
  void step(const Progress& progress) override { inner_.step(progress); }
  void saved(const std::string& path, int64_t step) override { inner_.saved(path, step); }
  void resumed(const std::string& path, int64_t step) override { inner_.resumed(path, step); }
  void warning(const std::string& sentence) override { inner_.warning(sentence); }
  void done() override { inner_.done(); }

 protected:
  Reporter& inner_;
};

// Rewrites the report at each validation and every few seconds. A report that cannot be written is
// a warning: the run goes on without it.
class LiveReport : public PassOn {
 public:
  // `description`: one line about the model; `program`: who writes it.
  LiveReport(Reporter& inner, std::string folder, std::string description, std::string program);
  ~LiveReport() override;
  void step(const Progress& progress) override;
  void done() override;

 private:
  void write(bool going_on);
  void write_page(bool going_on) const;

  class Scalars;
  std::string folder_, description_, program_;
  std::unique_ptr<Scalars> scalars_;  // from the first step on, when the log is there
  Progress progress_;
  double next_ = 0;  // seconds of the run
  bool failed_ = false;
};

}  // namespace tete
