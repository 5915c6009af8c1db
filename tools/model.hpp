// A model as the program knows it: settings that options, configuration files and checkpoints spell
// alike, and the model that they make.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "attention/sites.hpp"
#include "nn/model.hpp"

namespace CLI {
class App;
}

namespace tete {

inline constexpr Index default_heads = 4;

// One text in the notation.
struct ProgramText {
  std::string name;   // "talking_heads"
  std::string place;  // what errors call it: "talking_heads.tete", or the path that was given
  std::string text;
};

struct Amendment {
  ProgramText program;
  std::string sites = {};  // where: self, encoder, decoder or cross; empty: everywhere
};

struct ModelSettings {
  // A whole model's text, which leaves of the settings below only sizes; what the caller says about
  // its slots; and the texts that fill them. Empty: attention in the skeleton of
  // nn/transformer.hpp.
  ProgramText text = {};
  std::vector<std::string> uses = {};
  std::vector<ProgramText> fillers = {};
  bool encoder = false;  // an encoder reads a source, and the decoder attends to it
  ProgramText attention = {};
  // In its place: by "encoder", "decoder" or "cross", and by one layer of it: "decoder/3".
  std::map<std::string, ProgramText> sites = {};
  std::vector<Amendment> with = {};  // in their order
  SizesByName dims = {};             // sizes that are set by name
  Index layers = 4;
  std::optional<Index> heads = {};  // not set: default_heads, if the variant has heads
  Index d_model = 128;
  Index d_ff = 0;  // 0: 4 d_model
  Index context = 64;
  std::string activation = "relu";
  bool bias = false;  // in feed-forward
  std::string norm = "layer";
  std::string positions = "learned";
  bool tied = true;
  bool scale_logits = true;
  std::string init = "t5";
};

// "h_k=4" becomes a size by its name. Fails on a name that has a size already.
void set_dim(SizesByName& dims, const std::string& setting);

// --layers, --heads, --d-model, --context and the like; `style` is of --style.
void add_shape_options(CLI::App& app, ModelSettings& settings, std::string& style);
// Sets the style's options of `app` where they were not said.
void apply_style(ModelSettings& settings, const std::string& style, CLI::App& app);

// A variant's text, or a file's. Fails where there is neither, with the nearest variant.
ProgramText read_text(const std::string& name_or_path);
// The same for what amends variants.
ProgramText read_amendment(const std::string& name_or_path);

// With the texts themselves: a checkpoint needs no file but itself.
nlohmann::ordered_json to_json(const ModelSettings& settings);
// Fails on a field that is missing or of another type, which the sentence names.
ModelSettings settings_from_json(const nlohmann::ordered_json& json);

// Refuses sizes that make no sense, in one sentence that names the option.
void check_settings(const ModelSettings& settings);

// The attention of the settings, checked; and its sizes in a model that is d_model wide.
std::shared_ptr<const Checked> make_attention(const ModelSettings& settings);
AttentionSizes attention_sizes(const ModelSettings& settings, const Checked& program);

// Fails as check_settings does.
// The settings' text, checked, with their sizes as l, h, d_X, f and max_n where it has these.
Model make_text_model(const ModelSettings& settings, Index vocabulary);
// True if the settings are of a whole model's text.
inline bool is_text(const ModelSettings& settings) { return !settings.text.text.empty(); }
// Sets settings.text, what `use` and `with` (--use, --with) say about its slots, and the texts that
// fill them.
void read_model_text(ModelSettings& settings, const std::string& name_or_path,
                     const std::vector<std::string>& use = {},
                     const std::vector<std::string>& with = {});
LanguageModelConfig model_config(const ModelSettings& settings, Index vocabulary);
LanguageModel make_model(const ModelSettings& settings, const ChosenSites& sites, Index vocabulary);
EncoderDecoder make_encoder_decoder(const ModelSettings& settings, const ChosenSites& sites,
                                    Index vocabulary);

}  // namespace tete
