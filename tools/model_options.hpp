// The options that shape a model: its text, what fills its slots, its sizes.
#pragma once
#include <string>
#include <vector>

#include "tools/model.hpp"

namespace CLI {
class App;
}

namespace tete {

// An option that is "" or empty leaves the choice to the model's text.
struct ModelOptions {
  std::string whole = {};  // --model; "": language_model, or encoder_decoder
  std::string attention = {}, encoder = {}, decoder = {}, cross = {};
  std::vector<std::string> layers = {};  // --attention-layer: "3=NAME", "encoder/3=NAME"
  std::string norm = {}, activation = {}, positions = {};
  std::optional<bool> bias = {}, tied = {};
  std::string style = "t5";
  std::vector<std::string> with = {}, dim = {}, use = {};
  ModelSettings model = {};
  // The settings of the run that is resumed: texts are read from there, not by their names.
  std::optional<ModelSettings> began = {};
};
// --attention, --model and all that follow.
void add_model_options(CLI::App& app, ModelOptions& options);
// Those of them that shape a model around an attention that was named before.
void add_shape_options(CLI::App& app, ModelOptions& options);
// Reads what they name into options.model. A file that is gone, and any text of the catalogue, is
// that of options.began. Without --model that is the text for a language model,
// or for an encoder with a decoder. Fails (input) in a sentence that names the option.
void read_model(ModelOptions& options, CLI::App& app, bool encoder);

}  // namespace tete
