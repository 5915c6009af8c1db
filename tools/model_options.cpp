#include "tools/model_options.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "tools/config.hpp"
#include "tools/options.hpp"
#include "tools/uses.hpp"

namespace tete {

// ---- Declaration ----

void add_shape_options(CLI::App& app, ModelOptions& o) {
  ModelSettings& m = o.model;
  const auto filler = [&](const char* name, std::string& value, const char* what) {
    app.add_option(name, value, what)->type_name("NAME|FILE");
  };
  filler("--attention-encoder", o.encoder, "another for the encoder's layers");
  filler("--attention-decoder", o.decoder, "another for the decoder's self-attention");
  filler("--attention-cross", o.cross, "another for attention to what the encoder made");
  add_list(app, "--attention-layer", o.layers,
           "another for one layer, from 0: 3=NAME, or encoder/3=NAME, decoder/3=NAME, cross/3=NAME")
      ->type_name("LAYER=NAME");
  const auto size = [&](const char* names, auto& value, const char* what) {
    app.add_option(names, value, what)->type_name("N");
  };
  size("--layers,--n_layer", m.layers, "blocks (default: as the model's text says)");
  size("--heads,--n_head", m.heads, "heads of the attention (default: as the text says)");
  size("--d-model,--d_model,--n_embd", m.d_model,
       "width of the residual stream (default: as the text says)");
  size("--d-ff,--d_ff", m.d_ff, "width of feed-forward (default: as the texts say)");
  app.add_option("--context,--block_size", m.context, "tokens that the model sees")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--style", o.style,
                 "t5 (as the texts say), or gpt2: exact GELU with biases, its initialisation, "
                 "logits not scaled")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--activation", o.activation,
                 "of feed-forward: relu, gelu, gelu_erf, silu, …, gated glu, geglu, reglu, swiglu, "
                 "liglu")
      ->type_name("NAME");
  const auto flag = [&](const char* names, std::optional<bool>& value, const char* what) {
    app.add_flag_function(
           names, [&value](int64_t count) { value = count > 0; }, what)
        ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  };
  flag("--bias,!--no-bias", o.bias, "biases in feed-forward, or none [the text's]");
  app.add_option("--norm", o.norm, "layer, rms, none, or a text")->type_name("NAME|FILE");
  app.add_option("--positions", o.positions,
                 "absolute: learned, sinusoidal, none, or a text; or relative: t5_bias, rotary, …")
      ->type_name("NAME|FILE");
  flag("--tied,!--untied", o.tied, "the output layer is the embedding, or not [the text's]");
  app.add_option(
         "--init", m.init,
         "how parameters start: t5 (as the texts say), gpt2 (N(0.02)), or admin (as the texts say, "
         "scales of residuals by a pass over a batch)")
      ->type_name("NAME")
      ->capture_default_str();
}

void add_model_options(CLI::App& app, ModelOptions& o) {
  app.option_defaults()->group("Model");
  app.add_option("--model", o.whole,
                 "a whole model (tete list --models), or a file [language_model; encoder_decoder "
                 "for a task with a source]; the options below fill its slots")
      ->type_name("NAME|FILE");
  app.add_option(
         "--attention", o.attention,
         "a variant (tete list), or a file in the notation [the text's; multi_head for tasks]")
      ->type_name("NAME|FILE");
  add_uses(app, o.use);
  add_list(app, "--with", o.with,
           "amend it: position schemes and the like; for some sites only: self=NAME, encoder=, "
           "decoder=, cross=")
      ->type_name("NAME|FILE");
  add_list(app, "--dim", o.dim, "set a size by its name in the texts: --dim h_k=4")
      ->type_name("NAME=SIZE");
  add_shape_options(app, o);
}

// ---- Short forms of --use ----

namespace {

// A gated feed-forward layer by the name of Shazeer 2020, and what is applied to its gate.
struct Gated {
  const char* name;
  const char* activation;
};
constexpr Gated gated_layers[] = {{"glu", "sigmoid"},
                                  {"geglu", "gelu"},
                                  {"reglu", "relu"},
                                  {"swiglu", "silu"},
                                  {"liglu", "identity"}};

class ShortForms {
 public:
  ShortForms(const ModelOptions& options, const Program& text) : o_(options), text_(text) {}

  std::vector<SlotUse> all() {
    for (const std::string& setting : o_.use) {
      const Program said = Program::parse_uses(as_names(setting), "--use");
      for (const UseText& use : said.uses)
        if (!use.filler.name.empty()) filled_.insert(written(use));
    }
    attention();
    feed_forward();
    fill_short("--norm", "Norm", o_.norm, "norm_");
    positions();
    output();
    for (const std::string& setting : o_.use) uses_.push_back({setting});
    return std::move(uses_);
  }

 private:
  // Files have names of their own later.
  static std::string as_names(const std::string& setting) {
    return with_files(setting, [](const std::string&) { return "file"; });
  }

  // Adds a use of the option's, unless --use fills the same slot at the same place.
  void add(const std::string& option, const std::string& slot, const std::string& filling) {
    if (!filled_.contains(slot)) return uses_.push_back({slot + "=" + filling, option});
    std::cerr << "warning: " << option << " gives way to --use, which fills " << slot << std::endl;
  }

  void fill(const std::string& option, const std::string& slot, const std::string& value) {
    if (!value.empty()) add(option + " " + value, slot, value);
  }

  // The same, where the value may be a text's name without this prefix.
  void fill_short(const std::string& option, const std::string& slot, const std::string& value,
                  const std::string& prefix) {
    std::vector<std::string> names;
    for (const std::string& name : catalogue().texts)
      if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
    const std::string word = value.substr(0, value.find(' '));
    if (std::find(names.begin(), names.end(), word) != names.end())
      return add(option + " " + value, slot, prefix + value);
    if (!word.empty() && !is_program_path(word) && !catalogue().text(word) && !text_.find(word) &&
        !has_slot(text_, word))
      bad_input(option, " ", value, ": expected a text, or ", list_of(names, {}, " or "),
                suggestion(word, names));
    fill(option, slot, value);
  }

  void attention() {
    fill("--attention", "Attention", o_.attention);
    fill("--attention-encoder", "encoder.Attention", o_.encoder);
    fill("--attention-decoder", "decoder.Attention", o_.decoder);
    fill("--attention-cross", "Cross", o_.cross);
    for (const std::string& setting : o_.layers)
      add("--attention-layer " + setting, layer_slot(setting),
          setting.substr(setting.find('=') + 1));
    keep_cross();
  }

  // "3=NAME" is about Attention[3], "cross/3=NAME" about Cross[3].
  static std::string layer_slot(const std::string& setting) {
    const size_t slash = setting.find('/'), is = setting.find('=');
    const bool has_stack = slash < is;
    const std::string stack = has_stack ? setting.substr(0, slash) : "";
    const size_t first = has_stack ? slash + 1 : 0;
    const std::string layer = setting.substr(first, is - first);
    if (is == std::string::npos || is + 1 == setting.size() || layer.empty() ||
        layer.find_first_not_of("0123456789") != std::string::npos)
      bad_input("--attention-layer ", setting,
                ": expected LAYER=NAME, as in 3=multi_head or cross/3=multi_head");
    return text(stack == "cross" ? "Cross"
                : has_stack      ? stack + ".Attention"
                                 : "Attention",
                "[", layer, "]");
  }

  // A text may fill Cross with whatever fills Attention where it stands; what is said about
  // self-attention alone does not reach it.
  void keep_cross() {
    const bool is_about_self = !o_.decoder.empty() || !o_.layers.empty();
    if (!is_about_self || !has_slot(text_, "Cross") || !o_.cross.empty() ||
        filled_.contains("Attention"))  // which --use means as texts do
      return;
    const UseText* own = of_text("Attention");
    if (!o_.attention.empty()) fill("--attention", "Cross", o_.attention);
    else if (own) add("--attention-decoder", "Cross", filling_of(*own));
  }

  // An amendment that names no absolute positions, as t5_bias, fills the slot Relative. Where the
  // model's own are of the kind, as positions_learned_shared of learned ones, they stay.
  void positions() {
    const std::string &name = o_.positions, whole = "positions_" + name;
    if (catalogue().amendment(name) && !catalogue().text(whole))
      return fill("--positions", "Relative", name);
    const UseText* own = of_text("Absolute");
    if (own && !name.empty() && own->filler.name.starts_with(whole + "_"))
      return fill("--positions", "Absolute", filling_of(*own));
    fill_short("--positions", "Absolute", name, "positions_");
  }

  // The text's own filling of a slot, or nullptr.
  const UseText* of_text(const char* slot) const {
    for (const UseText& use : text_.uses)
      if (use.slot.name == slot && use.path.empty() && use.numbers.empty() &&
          !use.filler.name.empty())
        return &use;
    return nullptr;
  }

  void output() {
    const bool is_gpt2 = o_.style == "gpt2";
    if (!o_.tied.value_or(true)) add("--untied", "Output", "output_own");
    else if (is_gpt2) add("--style gpt2", "Output", "output_tied_unscaled");
    else if (o_.tied) add("--tied", "Output", "output_tied");
  }

  // A layer of the family ff stays gated or biased as the text has it, and starts as that says.
  void feed_forward() {
    const Gated* gated = find_named(o_.activation, gated_layers);
    const std::string option = gated || !o_.bias ? "--activation " + o_.activation
                               : *o_.bias        ? std::string("--bias")
                                                 : "--no-bias";
    const UseText* own = of_text("FeedForward");
    const std::string name = own ? own->filler.name : "", rest = own ? filling_of(*own) : "";
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    const std::string wanted = text("ff", gated || has("_gated") ? "_gated" : "",
                                    o_.bias.value_or(has("_biases")) ? "_biases" : "");
    if ((gated || o_.bias) && name != wanted)
      add(option, "FeedForward", wanted + (own ? rest.substr(name.size()) : ""));
    fill("--activation", "Activation", gated ? gated->activation : o_.activation);
  }

  const ModelOptions& o_;
  const Program& text_;
  std::set<std::string> filled_;  // by --use: "decoder.Attention[3]"
  std::vector<SlotUse> uses_;
};

// Sets the style's options where they were not said.
void apply_style(const ModelOptions& o, CLI::App& app) {
  if (o.style == "t5") return;
  const std::string styles[] = {"t5", "gpt2"};
  if (o.style != "gpt2")
    bad_input("--style ", o.style, ": expected t5 or gpt2", suggestion(o.style, styles));
  apply_config(app, "--style gpt2", "activation = 'gelu_erf'\nbias = true\ninit = 'gpt2'\n");
}

// The model's text; that of the run that is resumed, if it is in the catalogue or its file is gone.
Variant find_whole(const ModelOptions& o) {
  if (!o.began) return find_model(o.whole);
  const std::string name = std::filesystem::path(o.whole).stem().string();
  const ProgramText* const kept = kept_text({&o.began->text, 1}, name, o.whole);
  if (!kept) return find_model(o.whole);
  const Program program = Program::parse(kept->text, kept->place);
  return {name, "", std::make_shared<const Program>(program)};
}

}  // namespace

void read_model(ModelOptions& o, CLI::App& app, bool encoder) {
  apply_style(o, app);
  for (const std::string& setting : o.dim) set_dim(o.model.dims, setting);
  check_settings(o.model);
  if (o.began) o.model.fillers = o.began->fillers;
  if (o.whole.empty()) o.whole = encoder ? "encoder_decoder" : "language_model";
  const Variant text = find_whole(o);
  read_model_text(o.model, text, ShortForms(o, *text.program).all(), o.with);
}

}  // namespace tete
