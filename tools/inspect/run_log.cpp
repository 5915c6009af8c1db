#include "tools/inspect/run_log.hpp"

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "train/json.hpp"

namespace tete {

namespace {

using nlohmann::ordered_json;

// Calls `take` with each whole line of that split.
void each_line(const std::string& folder, const std::string& split,
               const std::function<void(const ordered_json& line)>& take) {
  std::ifstream log(folder + "/metrics.jsonl");
  const std::string key = "\"split\":\"" + split + "\"";
  for (std::string line; std::getline(log, line) && !log.eof();) {
    if (line.find(key) == std::string::npos) continue;
    const ordered_json json = json_or_null(line);
    if (json.is_object() && json.value("split", "") == split && json.contains("step")) take(json);
  }
}

// "decoder/3/A/P_q" is "A/P_q" of "decoder/3"; what is in no layer is of "the rest".
struct PathParts {
  std::string part, name;
};
PathParts parts_of(const std::string& parameter) {
  const size_t digits = parameter.find('/') + 1, end = parameter.find('/', digits);
  if (digits == 0 || end == std::string::npos ||
      parameter.find_first_not_of("0123456789", digits) != end || end == digits)
    return {"the rest", parameter};
  return {parameter.substr(0, end), parameter.substr(end + 1)};
}

}  // namespace

std::vector<Curve> read_norms(const std::string& folder) {
  std::vector<Curve> gradients, updates;
  std::map<std::string, size_t> known;  // where a parameter's curves are
  each_line(folder, "norms", [&](const ordered_json& line) {
    const double step = line["step"].get<double>();
    for (const auto& [name, norms] : line.at("norms").items()) {
      const auto [at, added] = known.emplace(name, gradients.size());
      if (added) {
        const PathParts path = parts_of(name);
        gradients.push_back({path.name, "gradient norm, " + path.part, "", {}, {}});
        updates.push_back({path.name, "update / value, " + path.part, "", {}, {}});
      }
      const double value = norms.at(0), gradient = norms.at(1), update = norms.at(2);
      const auto add = [&](Curve& curve, double y) {
        curve.steps.push_back(step), curve.values.push_back(y);
      };
      add(gradients[at->second], gradient);
      if (value > 0) add(updates[at->second], update / value);
    }
  });
  gradients.insert(gradients.end(), updates.begin(), updates.end());
  std::erase_if(gradients, [](const Curve& curve) { return curve.steps.empty(); });
  return gradients;
}

std::vector<WrittenSample> read_samples(const std::string& folder) {
  std::vector<WrittenSample> samples;
  each_line(folder, "samples", [&](const ordered_json& line) {
    WrittenSample sample{.step = line["step"].get<int64_t>(), .prompt = {}, .text = {}};
    for (const ordered_json& each : line.at("samples"))
      sample.text += (sample.text.empty() ? "" : "\n") + each.at("prompt").get<std::string>() +
                     each.at("text").get<std::string>();
    samples.push_back(std::move(sample));
  });
  return samples;
}

}  // namespace tete
