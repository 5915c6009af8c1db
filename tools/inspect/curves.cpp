#include "tools/inspect/curves.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "train/files.hpp"
#include "train/json.hpp"

namespace tete {

namespace {

// A number of the log, by the split of its line and its key.
struct Logged {
  const char *split, *key, *name, *group, *unit;
};
constexpr Logged rows[] = {
    {"train", "loss", "loss", "loss", "nats a token"},
    {"validation", "loss", "validation loss", "loss", "nats a token"},
    {"validation", "acc", "right tokens", "right", ""},
    {"validation", "exact_match", "right answers", "right", ""},
    {"train", "lr", "rate", "rate", ""},
    {"train", "lr_eff_med", "effective rate, median", "rate", ""},
    {"train", "grad_norm", "gradient norm", "gradient norm", ""},
    {"train", "tok_per_s", "tokens a second", "speed", "tokens/s"},
};

}  // namespace

std::vector<Curve> read_curves(const std::string& folder) {
  const std::string path = folder + (folder.empty() ? "" : "/") + "metrics.jsonl";
  if (!std::filesystem::exists(path)) return {};
  std::vector<Curve> curves;
  for (const Logged& row : rows) curves.push_back({row.name, row.group, row.unit, {}, {}});
  const std::string all = read_file(path);
  for (size_t at = 0, end; (end = all.find('\n', at)) != std::string::npos; at = end + 1) {
    const auto line = json_or_null(std::string_view(all).substr(at, end - at));
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number()) continue;
    for (size_t i = 0; i < std::size(rows); ++i) {
      if (line.value("split", nlohmann::ordered_json()) != rows[i].split) continue;
      const auto number = line.find(rows[i].key);
      if (number == line.end() || !number->is_number()) continue;
      curves[i].steps.push_back(line["step"].get<double>());
      curves[i].values.push_back(number->get<double>());
    }
  }
  std::erase_if(curves, [](const Curve& curve) { return curve.steps.empty(); });
  return curves;
}

}  // namespace tete
