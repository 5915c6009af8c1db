#include "tools/trained.hpp"

#include <iostream>
#include <nlohmann/json.hpp>

#include "train/json.hpp"

namespace tete {

// Reads the model from the metadata; its parameters are read later.
static Trained describe_trained(const RunState& state) {
  const auto config = json_or_null(state.config);
  if (!config.is_object() || !config.contains("model"))
    bad_input("its configuration is not one of `tete train`");
  const auto task = config.find("task");
  if (task != config.end() && !task->is_string())
    bad_input("its configuration's 'task' is ", task->dump().substr(0, 40), ", expected a name");
  const std::string name = task == config.end() ? "text" : task->get<std::string>();
  Tokenizer tokenizer = Tokenizer::read(state.tokenizer);
  ModelSettings settings = settings_from_json(config["model"]);
  Model model = make_model(settings, vocabulary_of(name, tokenizer));
  return {.path = {},
          .step = state.step,
          .tokenizer = std::move(tokenizer),
          .settings = std::move(settings),
          .model = std::move(model),
          .params = {},
          .task = find_task(name)};
}

Trained read_trained(const std::string& where, Backend& on) {
  std::vector<std::string> warnings;
  const std::string path = find_checkpoint(where, &warnings);
  for (const std::string& warning : warnings) std::cerr << "warning: " << warning << std::endl;
  const Safetensors file(path);
  const RunState state = read_state(file);
  Trained trained = [&] {
    try {
      return describe_trained(state);
    } catch (const Error& error) {
      throw Error(error.kind(),
                  text(path, " is not a checkpoint that can be used: ", error.what()));
    }
  }();
  trained.path = path;
  for (const Tensor& value : read_params(file, trained.declared().specs()))
    trained.params.push_back(value.to(on));
  return trained;
}

}  // namespace tete
