#include "tools/trained.hpp"

#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/sites.hpp"

namespace tete {

Trained read_trained(const std::string& where) {
  std::vector<std::string> warnings;
  const std::string path = find_checkpoint(where, &warnings);
  for (const std::string& warning : warnings) std::cerr << "warning: " << warning << std::endl;
  const Safetensors file(path);
  const RunState state = read_state(file);
  const auto config = nlohmann::ordered_json::parse(state.config, nullptr, false);
  if (!config.is_object() || !config.contains("model"))
    bad_input(path, ": its configuration is not one of `tete train`");
  Tokenizer tokenizer = Tokenizer::read(state.tokenizer);
  ModelSettings settings = settings_from_json(config["model"]);
  ChosenSites sites = choose_sites(settings);
  const Index vocabulary = tokenizer.size();
  const auto trained = [&](auto model) -> Trained {
    Tensors params = read_params(file, model.params().specs());
    return {path,
            state.step,
            std::move(tokenizer),
            std::move(settings),
            std::move(sites),
            std::move(model),
            std::move(params),
            find_task(config.value("task", ""))};
  };
  return settings.encoder ? trained(make_encoder_decoder(settings, sites, vocabulary))
                          : trained(make_model(settings, sites, vocabulary));
}

}  // namespace tete
