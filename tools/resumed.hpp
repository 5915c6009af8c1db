// A run that goes on: what is not as it was, as sentences.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "tools/train_options.hpp"

namespace tete {

// A sentence for each setting of the training that is not what the checkpoint at `path` records in
// its configuration, whoever changed it: the command line or a hand in config.json. Fails (input)
// where the model is another.
std::vector<std::string> changes_since(const std::string& path, const std::string& config,
                                       const TrainOptions& o, const nlohmann::ordered_json& now);

// A sentence for each option that is not what the kept configuration says, but for those that
// `recorded` has.
std::vector<std::string> changed_options(const std::string& kept, const CLI::App& app,
                                         const nlohmann::ordered_json* recorded);

}  // namespace tete
