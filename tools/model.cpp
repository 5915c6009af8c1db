#include "tools/model.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace tete {

using nlohmann::ordered_json;

// ---- Texts ----

void set_dim(SizesByName& dims, const std::string& setting) {
  const size_t is = setting.find('=');
  const std::string digits = is == std::string::npos ? "" : setting.substr(is + 1);
  if (is == 0 || digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    bad_input("--dim ", setting, ": expected NAME=SIZE, as in --dim h_k=4");
  dims[setting.substr(0, is)] = std::stoll(digits);
}

ProgramText read_text(const std::string& name_or_path) {
  const Variant variant = find_variant(name_or_path);
  return {variant.name, variant.program->source->name, variant.program->source->text};
}

ProgramText read_amendment(const std::string& name_or_path) {
  const Variant amendment = find_amendment(name_or_path);
  return {amendment.name, amendment.program->source->name, amendment.program->source->text};
}

// ---- Options ----

void add_shape_options(CLI::App& app, ModelSettings& m, std::string& style) {
  app.add_option("--layers,--n_layer", m.layers, "blocks")->type_name("N")->capture_default_str();
  app.add_option("--heads,--n_head", m.heads, text("heads of the attention [", default_heads, "]"))
      ->type_name("N");
  app.add_option("--d-model,--d_model,--n_embd", m.d_model, "width of the residual stream")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--d-ff,--d_ff", m.d_ff, "width of feed-forward (default: 4 times d-model)")
      ->type_name("N");
  app.add_option("--context,--block_size", m.context, "tokens that the model sees")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--style", style,
                 "t5, or gpt2: exact GELU with biases, its initialisation, logits not scaled")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--activation", m.activation, "of feed-forward: relu, gelu, silu, swiglu, …")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--bias,!--no-bias", m.bias, "biases in feed-forward");
  app.add_option("--norm", m.norm, "layer or rms")->type_name("NAME")->capture_default_str();
  app.add_option("--positions", m.positions, "learned, sinusoidal or none")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--tied,!--untied", m.tied, "the output layer is the embedding (default)");
  app.add_option("--init", m.init, "how parameters start: t5 (as the texts say) or gpt2 (N(0.02))")
      ->type_name("NAME")
      ->capture_default_str();
}

void apply_style(ModelSettings& m, const std::string& style, const CLI::App& app) {
  if (style == "t5") return;
  const std::string styles[] = {"t5", "gpt2"};
  if (style != "gpt2")
    bad_input("--style ", style, ": expected t5 or gpt2", suggestion(style, styles));
  const auto unsaid = [&](const char* option) { return app.get_option(option)->count() == 0; };
  if (unsaid("--activation")) m.activation = "gelu_erf";
  if (unsaid("--bias")) m.bias = true;
  if (unsaid("--init")) m.init = "gpt2";
  m.scale_logits = false;
}

// ---- JSON ----

static ordered_json to_json(const ProgramText& program) {
  return {{"name", program.name}, {"text", program.text}};
}

static ProgramText program_from_json(const ordered_json& json) {
  const std::string name = json.at("name").get<std::string>();
  return {name, name + ".tete", json.at("text").get<std::string>()};
}

ordered_json to_json(const ModelSettings& s) {
  ordered_json json;
  if (s.encoder) json["encoder"] = true;
  json["attention"] = to_json(s.attention);
  for (const auto& [site, program] : s.sites) json["sites"][site] = to_json(program);
  json["with"] = ordered_json::array();
  for (const Amendment& amendment : s.with) {
    json["with"].push_back(to_json(amendment.program));
    if (!amendment.sites.empty()) json["with"].back()["sites"] = amendment.sites;
  }
  json["dim"] = s.dims;
  json["layers"] = s.layers;
  json["heads"] = s.heads ? ordered_json(*s.heads) : ordered_json();
  json["d_model"] = s.d_model;
  json["d_ff"] = s.d_ff;
  json["context"] = s.context;
  json["activation"] = s.activation;
  json["bias"] = s.bias;
  json["norm"] = s.norm;
  json["positions"] = s.positions;
  json["tied"] = s.tied;
  json["scale_logits"] = s.scale_logits;
  json["init"] = s.init;
  return json;
}

ModelSettings settings_from_json(const ordered_json& json) {
  ModelSettings s;
  try {
    s.encoder = json.value("encoder", false);
    s.attention = program_from_json(json.at("attention"));
    if (json.contains("sites"))
      for (const auto& [site, program] : json["sites"].items())
        s.sites[site] = program_from_json(program);
    for (const ordered_json& each : json.at("with"))
      s.with.push_back({program_from_json(each), each.value("sites", "")});
    json.at("dim").get_to(s.dims);
    json.at("layers").get_to(s.layers);
    if (!json.at("heads").is_null()) s.heads = json["heads"].get<Index>();
    json.at("d_model").get_to(s.d_model);
    json.at("d_ff").get_to(s.d_ff);
    json.at("context").get_to(s.context);
    json.at("activation").get_to(s.activation);
    json.at("bias").get_to(s.bias);
    json.at("norm").get_to(s.norm);
    json.at("positions").get_to(s.positions);
    json.at("tied").get_to(s.tied);
    json.at("scale_logits").get_to(s.scale_logits);
    json.at("init").get_to(s.init);
  } catch (const nlohmann::json::exception&) {
    bad_input("the checkpoint's configuration is not one of a language model of this program");
  }
  return s;
}

// ---- Checks ----

static void in_range(const char* option, Index value, Index low, Index high) {
  if (value < low || value > high) bad_input(option, " ", value, ": expected ", low, " to ", high);
}

void check_settings(const ModelSettings& s) {
  in_range("--layers", s.layers, 1, 1000);
  if (s.heads) in_range("--heads", *s.heads, 1, 1024);
  in_range("--d-model", s.d_model, 1, 65536);
  in_range("--d-ff", s.d_ff, 0, 1 << 20);
  in_range("--context", s.context, 1, 1 << 20);
  for (const auto& [name, size] : s.dims)
    in_range(text("--dim ", name, "=").c_str(), size, 1, 1 << 20);
  activation(s.activation);
  init_rule(s.init);
}

// ---- The model ----

std::shared_ptr<const Checked> make_attention(const ModelSettings& s) {
  std::vector<Program> amendments;
  for (const Amendment& amendment : s.with)
    amendments.push_back(Program::parse(amendment.program.text, amendment.program.place));
  return load_attention(Program::parse(s.attention.text, s.attention.place), amendments);
}

AttentionSizes attention_sizes(const ModelSettings& s, const Checked& program) {
  const bool has_heads = program.find_dimension("h") >= 0 && !s.dims.contains("h");
  AttentionSizes sizes{.d_model = s.d_model, .heads = s.heads, .dims = s.dims};
  if (!s.heads && has_heads) sizes.heads = default_heads;
  return sizes;
}

LanguageModelConfig model_config(const ModelSettings& s, Index vocabulary) {
  check_settings(s);
  LanguageModelConfig config;
  config.vocabulary = vocabulary;
  config.context = s.context;
  config.d_model = s.d_model;
  config.layers = static_cast<int>(s.layers);
  config.block.norm = s.norm;
  config.block.d_ff = s.d_ff;
  config.block.feed_forward.activation = s.activation;
  config.block.feed_forward.bias = s.bias;
  config.positions = s.positions;
  config.tied = s.tied;
  config.scale_logits = s.scale_logits;
  config.init = s.init;
  return config;
}

LanguageModel make_model(const ModelSettings& s, const ChosenSites& sites, Index vocabulary) {
  return LanguageModel(model_config(s, vocabulary), attention_of(sites.decoder, true));
}

EncoderDecoder make_encoder_decoder(const ModelSettings& s, const ChosenSites& sites,
                                    Index vocabulary) {
  return EncoderDecoder(model_config(s, vocabulary), attention_of(sites));
}

}  // namespace tete
