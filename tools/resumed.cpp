#include "tools/resumed.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/config.hpp"
#include "tools/json_number.hpp"
#include "train/json.hpp"

namespace tete {

using nlohmann::ordered_json;

// A setting of a model, where 0 says that it follows from others.
static std::string told(const std::string& key, const ordered_json& value) {
  return value.is_null() || (key == "d_ff" && value == 0) ? "unset" : value.dump();
}

// A run goes on with the model that it began with.
static void check_same_model(const TrainOptions& o, const ordered_json& then) {
  const ordered_json now = to_json(o.model);
  ordered_json both = then;
  both.update(now);
  for (const auto& [key, either] : both.items()) {
    const ordered_json began = then.value(key, ordered_json());
    const ordered_json value = now.value(key, ordered_json());
    if (began == value) continue;
    const bool a_text = key == "text" || key == "fillers";
    bad_input("'", key, "' is not what the run in ", o.loop.folder, " began with",
              a_text ? "" : text(": ", told(key, value), ", but there ", told(key, began)));
  }
}

static std::string shown(const ordered_json& value) {
  if (value.is_number_float()) return number_text(value.get<double>());
  return value.is_null() ? "unset" : value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::string> changes_since(const std::string& path, const std::string& config,
                                       const TrainOptions& o, const ordered_json& now) {
  const ordered_json then = json_or_null(config);
  if (!then.is_object() || !then.contains("model") || !then["model"].is_object())
    bad_input("cannot go on from ", path, ": its configuration is not one of `tete train`");
  check_same_model(o, then["model"]);
  std::vector<std::string> sentences;
  const ordered_json training = then.value("training", ordered_json());
  if (!training.is_object()) return sentences;  // nor is it in the oldest checkpoints
  for (const auto& [key, value] : now["training"].items()) {
    const auto before = training.find(key);
    if (before == training.end() || *before == value) continue;
    const bool scheduled = key == "rate" || key == "last_rate" || key == "start" || key == "decay";
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    sentences.push_back(text(scheduled ? "the schedule's " : "", name, " was ", shown(*before),
                             " in ", path, " and is ", shown(value), " from here on"));
  }
  return sentences;
}

// True if checkpoints record what an option says.
static bool is_recorded(const ordered_json& configuration, std::string option) {
  if (option == "learning-rate" || option == "warmup") return true;  // as the schedule's
  std::replace(option.begin(), option.end(), '-', '_');
  return configuration["training"].contains(option);
}

std::vector<std::string> changed_options(const std::string& kept, const CLI::App& app,
                                         const ordered_json* recorded) {
  CLI::App app_then;
  TrainOptions then;
  add_train_options(app_then, then);
  read_config(app_then, kept);
  fill_in(then, app_then);
  const ordered_json before = configuration_of(app_then), now = configuration_of(app);
  std::vector<std::string> sentences;
  for (const auto& [key, value] : now.items())
    if (value != before[key] && !(recorded && is_recorded(*recorded, key)))
      sentences.push_back(
          text("--", key, " was ", shown(before[key]), " and is ", shown(value), " from here on"));
  return sentences;
}

}  // namespace tete
