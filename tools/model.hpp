// A model as the program knows it: settings that options, configuration files and checkpoints spell
// alike, and the model that they make.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "attention/catalog.hpp"
#include "nn/model.hpp"
#include "train/data.hpp"

namespace tete {

// One text in the notation.
struct ProgramText {
  std::string name;   // "talking_heads"
  std::string place;  // what errors call it: "talking_heads.tete", or the path that was given
  std::string text;
};

// A slot that a caller fills, in the notation's words: "decoder.Attention[3]=talking_heads".
struct SlotUse {
  std::string said;
  std::string option = "--use";  // what errors call it
};

struct ModelSettings {
  ProgramText text = {};                  // of the model
  std::vector<SlotUse> uses = {};         // of its slots
  std::vector<ProgramText> fillers = {};  // all texts that fill them
  SizesByName dims = {};                  // sizes that are set by name
  // Not set: as the text says, or, where it leaves them open, 4 layers, 4 heads, 128 wide.
  std::optional<Index> layers = {}, heads = {}, d_model = {};
  Index d_ff = 0;  // 0: as the text says
  Index context = 64;
  std::string init = "t5";  // how parameters start: t5 (as the texts say), gpt2 or admin
};

// "h_k=4" becomes a size by its name. Fails on a name that has a size already.
void set_dim(SizesByName& dims, const std::string& setting);

// The texts themselves are in it: a checkpoint needs no file but itself.
nlohmann::ordered_json to_json(const ModelSettings& settings);
// Fails on a field that is missing or of another type, which the sentence names.
ModelSettings settings_from_json(const nlohmann::ordered_json& json);

// Refuses sizes that make no sense, in one sentence that names the option.
void check_settings(const ModelSettings& settings);

// Sets the settings' text, those that fill its slots, and what `uses` and `with` (--with: NAME|FILE
// amends attention, cross=NAME one slot) say about these. Fillers that the settings have already
// are found by their names, before files and the catalogue.
void read_model_text(ModelSettings& settings, const Variant& model,
                     const std::vector<SlotUse>& uses = {},
                     const std::vector<std::string>& with = {});
// The settings' text, checked, with their sizes as l, h, d_X, f, max_n and max_m where it has
// these. Fails as check_settings does.
Model make_model(const ModelSettings& settings, Index vocabulary);
// The size that the model's text calls `name`; empty if it has none or leaves it to a call.
std::optional<Index> size_of(const Model& model, const std::string& name);
// "4 layers, 4 heads, 128 wide, ", without those that the text does not name l, h and d_X.
std::string shape_of(const Model& model);

// "gpt2", or "language_model (Attention=talking_heads)".
std::string described(const ModelSettings& settings);
// A sentence for each text that loses the scale of its logits to the settings' initialisation.
std::vector<std::string> start_warnings(const ModelSettings& settings, const Model& model);

// The part of a batch that a model of this kind reads.
ModelInputs inputs_of(ModelKind kind, const Batch& batch);

}  // namespace tete
