#include "tools/live_report.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/inspect/curves.hpp"
#include "tools/inspect/page.hpp"
#include "tools/inspect/run_log.hpp"
#include "train/events.hpp"
#include "train/files.hpp"
#include "train/json.hpp"

namespace tete {

using nlohmann::ordered_json;

namespace {

constexpr const char* columns[] = {
    "step",       "split",      "tokens",     "time_s",      "wall",
    "loss",       "ppl",        "acc",        "exact_match", "lr",
    "lr_eff_min", "lr_eff_med", "lr_eff_max", "grad_norm",   "grad_norm_clipped",
    "tok_per_s",  "ms_step",    "rss_mb"};

// A file that is only ever appended to.
class Appended {
 public:
  Appended(const std::string& folder, const char* name, const std::string& first)
      : path_(folder + "/" + name) {
    replace_file(folder, name, first.size(), [&](const Write& write) { write(first); });
    file_.open(path_, std::ios::binary | std::ios::app);
  }
  void add(const std::string& bytes) {
    file_ << bytes << std::flush;
    if (!file_) fail(ErrorKind::resource, "cannot write ", path_);
  }

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace

// The log's numbers for other tools, written as they come.
class LiveReport::Scalars {
 public:
  explicit Scalars(const std::string& folder)
      : log_(folder + "/metrics.jsonl"),
        metrics_(folder, "metrics.csv", header()),
        norms_(folder, "norms.csv", "step,parameter,value,gradient,update\n"),
        events_(folder, "events.out.tfevents.0.tete", first_event(0)) {}

  // Reads the lines that were logged since the last call.
  void take_new_lines() {
    std::ifstream file(log_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(read_));
    for (std::string line; std::getline(file, line) && !file.eof(); read_ += line.size() + 1) {
      const ordered_json json = json_or_null(line);
      if (!json.is_object()) continue;
      const std::string split = json.value("split", "");
      if (split == "norms") add_norms(json);
      else if (split != "samples") add_metrics(json, split);
    }
  }

 private:
  static std::string header() {
    std::string line;
    for (const char* column : columns) line += (line.empty() ? "" : ",") + std::string(column);
    return line + "\n";
  }

  void add_metrics(const ordered_json& json, const std::string& split) {
    std::string line;
    tete::Scalars scalars;
    for (const char* column : columns) {
      const auto found = json.find(column);
      if (column != columns[0]) line += ",";
      if (found == json.end() || found->is_null()) continue;
      line += found->is_string() ? found->get<std::string>() : found->dump();
      const std::string name = column;
      if (found->is_number() && name != "step" && name != "wall" && name != "time_s")
        scalars.emplace_back(split + "/" + name, found->get<double>());
    }
    metrics_.add(line + "\n");
    add_event(json, scalars);
  }

  void add_norms(const ordered_json& json) {
    std::string lines;
    tete::Scalars scalars;
    for (const auto& [name, norms] : json.at("norms").items()) {
      lines += text(json.at("step").dump(), ",", name);
      const char* const kinds[] = {"value", "gradient", "update"};
      for (size_t i = 0; i < 3; ++i) {
        lines += "," + norms.at(i).dump();
        scalars.emplace_back(text(kinds[i], " norm/", name), norms.at(i).get<double>());
      }
      lines += "\n";
    }
    norms_.add(lines);
    add_event(json, scalars);
  }

  void add_event(const ordered_json& json, const tete::Scalars& scalars) {
    events_.add(scalar_event(json.value("wall", 0.0), json.value("step", int64_t{0}), scalars));
  }

  std::string log_;
  size_t read_ = 0;  // bytes of the log
  Appended metrics_, norms_, events_;
};

LiveReport::LiveReport(Reporter& inner, std::string folder, std::string description,
                       std::string program)
    : PassOn(inner),
      folder_(std::move(folder)),
      description_(std::move(description)),
      program_(std::move(program)) {}
LiveReport::~LiveReport() = default;

void LiveReport::step(const Progress& progress) {
  inner_.step(progress);
  progress_ = progress;
  if (progress.validated || progress.seconds >= next_ || progress.step == progress.steps)
    write(progress.step < progress.steps);
}

void LiveReport::done() {
  if (scalars_ && progress_.step < progress_.steps) write(false);  // stopped
  inner_.done();
}

void LiveReport::write(bool going_on) {
  if (failed_) return;
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  try {
    if (!scalars_) scalars_ = std::make_unique<Scalars>(folder_);
    scalars_->take_new_lines();
    write_page(going_on);
  } catch (const std::exception& error) {
    failed_ = true;
    inner_.warning(text("the report is not written any more: ", error.what()));
  }
  // At most a twentieth of the time is spent here.
  const double spent = std::chrono::duration<double>(Clock::now() - began).count();
  next_ = progress_.seconds + std::max(5.0, 20 * spent);
}

// Every so many points that at most `most` are left, and the last.
static Curve thinned(Curve curve, size_t most) {
  const size_t count = curve.steps.size(), every = pieces_of(count, most);
  if (every < 2) return curve;
  size_t kept = 0;
  for (size_t i = (count - 1) % every; i < count; i += every, ++kept)
    curve.steps[kept] = curve.steps[i], curve.values[kept] = curve.values[i];
  curve.steps.resize(kept), curve.values.resize(kept);
  return curve;
}

void LiveReport::write_page(bool going_on) const {
  RunReport run;
  run.name = folder_;
  run.description = text(description_, ", step ", progress_.step, " of ", progress_.steps,
                         going_on                           ? ""
                         : progress_.step < progress_.steps ? ", stopped"
                                                            : ", done");
  for (std::vector<Curve>& curves : std::array{read_curves(folder_), read_norms(folder_)})
    for (Curve& curve : curves) run.curves.push_back(thinned(std::move(curve), 400));
  run.samples = read_samples(folder_);
  Report report;
  report.title = "Training " + folder_;
  report.runs.push_back(std::move(run));
  report.program = program_;
  report.refresh = going_on ? 5 : 0;
  const std::string page = page_of(report);
  replace_file(folder_, "report.html", page.size(), [&](const Write& write) { write(page); });
}

}  // namespace tete
