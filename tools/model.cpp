#include "tools/model.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/config.hpp"
#include "tools/uses.hpp"

namespace tete {

using nlohmann::ordered_json;

// ---- Texts ----

void set_dim(SizesByName& dims, const std::string& setting) {
  const size_t is = setting.find('=');
  const std::string digits = is == std::string::npos ? "" : setting.substr(is + 1);
  if (is == 0 || digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
    bad_input("--dim ", setting, ": expected NAME=SIZE, as in --dim h_k=4");
  if (digits.size() > 9) bad_input("--dim ", setting, ": expected a size of at most 999999999");
  const auto [at, is_new] = dims.emplace(setting.substr(0, is), std::stoll(digits));
  if (!is_new)
    bad_input("--dim ", at->first, " is set twice: ", at->second, " and ", std::stoll(digits));
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
  app.add_flag("--bias,!--no-bias", m.bias, "biases in feed-forward, or none");
  app.add_option("--norm", m.norm, "layer or rms")->type_name("NAME")->capture_default_str();
  app.add_option("--positions", m.positions, "learned, sinusoidal or none")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--tied,!--untied", m.tied, "the output layer is the embedding, or not [tied]")
      ->default_str("true");
  app.add_option("--init", m.init, "how parameters start: t5 (as the texts say) or gpt2 (N(0.02))")
      ->type_name("NAME")
      ->capture_default_str();
}

void apply_style(ModelSettings& m, const std::string& style, CLI::App& app) {
  if (style == "t5") return;
  const std::string styles[] = {"t5", "gpt2"};
  if (style != "gpt2")
    bad_input("--style ", style, ": expected t5 or gpt2", suggestion(style, styles));
  apply_config(app, "--style gpt2", "activation = 'gelu_erf'\nbias = true\ninit = 'gpt2'\n");
  m.scale_logits = false;
}

// ---- JSON ----

static ordered_json to_json(const ProgramText& program) {
  return {{"name", program.name}, {"text", program.text}};
}

[[noreturn]] static void unexpected(const std::string& key, const ordered_json& value,
                                    const char* expected) {
  const std::string shown = value.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
  bad_input("its configuration's '", key, "' is ", shown.substr(0, 40), ", expected ", expected);
}

static const ordered_json& field(const ordered_json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) bad_input("its configuration has no '", key, "'");
  return *found;
}
static const ordered_json& object_field(const ordered_json& object, const std::string& key) {
  const ordered_json& value = field(object, key);
  if (!value.is_object()) unexpected(key, value, "an object");
  return value;
}

static const ordered_json& list_field(const ordered_json& object, const std::string& key) {
  const ordered_json& value = field(object, key);
  if (!value.is_array()) unexpected(key, value, "a list");
  return value;
}

// The library would take 1.5 or true as the whole number 1.
static Index whole_number(const std::string& key, const ordered_json& value) {
  const bool fits = !value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX;
  if (!value.is_number_integer() || !fits) unexpected(key, value, "a whole number below 2^63");
  return value.get<Index>();
}
static void read_field(const ordered_json& object, const std::string& key, Index& to) {
  to = whole_number(key, field(object, key));
}
static void read_field(const ordered_json& object, const std::string& key, bool& to) {
  const ordered_json& value = field(object, key);
  if (!value.is_boolean()) unexpected(key, value, "true or false");
  to = value.get<bool>();
}
static void read_field(const ordered_json& object, const std::string& key, std::string& to) {
  const ordered_json& value = field(object, key);
  if (!value.is_string()) unexpected(key, value, "a string");
  to = value.get<std::string>();
}

static ProgramText program_from_json(const std::string& key, const ordered_json& json) {
  if (!json.is_object()) unexpected(key, json, "an object");
  ProgramText program;
  read_field(json, "name", program.name);
  read_field(json, "text", program.text);
  program.place = program.name + ".tete";
  return program;
}

static Amendment amendment_from_json(const ordered_json& json) {
  Amendment amendment{.program = program_from_json("with", json)};
  if (json.contains("sites")) read_field(json, "sites", amendment.sites);
  return amendment;
}

ordered_json to_json(const ModelSettings& s) {
  ordered_json json;
  if (s.encoder) json["encoder"] = true;
  if (is_text(s)) {
    json["text"] = to_json(s.text);
    if (!s.uses.empty()) json["uses"] = s.uses;
    for (const ProgramText& filler : s.fillers) json["fillers"].push_back(to_json(filler));
  }
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
  if (!json.is_object()) unexpected("model", json, "an object");
  ModelSettings s;
  if (json.contains("encoder")) read_field(json, "encoder", s.encoder);
  if (json.contains("text")) s.text = program_from_json("text", json["text"]);
  if (json.contains("uses"))
    for (const ordered_json& use : list_field(json, "uses")) {
      if (!use.is_string()) unexpected("uses", use, "a string");
      s.uses.push_back(use.get<std::string>());
    }
  if (json.contains("fillers"))
    for (const ordered_json& filler : list_field(json, "fillers"))
      s.fillers.push_back(program_from_json("fillers", filler));
  s.attention = program_from_json("attention", field(json, "attention"));
  if (json.contains("sites"))
    for (const auto& [site, program] : object_field(json, "sites").items())
      s.sites[site] = program_from_json(site, program);
  for (const ordered_json& each : list_field(json, "with"))
    s.with.push_back(amendment_from_json(each));
  for (const auto& [name, size] : object_field(json, "dim").items())
    s.dims[name] = whole_number(name, size);
  if (const ordered_json& heads = field(json, "heads"); !heads.is_null())
    s.heads = whole_number("heads", heads);
  read_field(json, "layers", s.layers);
  read_field(json, "d_model", s.d_model);
  read_field(json, "d_ff", s.d_ff);
  read_field(json, "context", s.context);
  read_field(json, "activation", s.activation);
  read_field(json, "bias", s.bias);
  read_field(json, "norm", s.norm);
  read_field(json, "positions", s.positions);
  read_field(json, "tied", s.tied);
  read_field(json, "scale_logits", s.scale_logits);
  read_field(json, "init", s.init);
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
  for (const auto& [name, size] : s.dims) in_range(text("--dim ", name).c_str(), size, 1, 1 << 20);
  activation(s.activation);
  init_rule(s.init);
}

// ---- The model ----

std::shared_ptr<const Checked> make_attention(const ModelSettings& s) {
  std::vector<Program> amendments;
  for (const Amendment& amendment : s.with)
    amendments.push_back(Program::parse(amendment.program.text, amendment.program.place));
  return load_attention(Program::parse(s.attention.text, s.attention.place), amendments,
                        library_of(s.fillers), programs_of({s.uses}));
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

namespace {

std::shared_ptr<const Checked> checked_text(const ModelSettings& s) {
  return std::make_shared<const Checked>(check(Program::parse(s.text.text, s.text.place), {},
                                               library_of(s.fillers), programs_of({s.uses})));
}

// Adds the texts that a checked one was made from, but for those that are there.
void add_sources(const Checked& program, std::vector<ProgramText>& texts) {
  for (const auto& source : program.sources) {
    const bool known = std::any_of(texts.begin(), texts.end(), [&](const ProgramText& text) {
      return text.place == source->name;
    });
    const std::string name = source->name.substr(0, source->name.rfind(".tete"));
    if (!known) texts.push_back({name, source->name, source->text});
  }
  for (const CheckedCall& all : program.calls)
    visit(all, [&](const CheckedCall& call) { add_sources(*call.program, texts); });
}

}  // namespace

void read_model_text(ModelSettings& s, const std::string& name_or_path,
                     const std::vector<std::string>& use, const std::vector<std::string>& with) {
  const Variant model = find_model(name_or_path);
  s.text = {model.name, model.program->source->name, model.program->source->text};
  SlotUses uses;
  for (const std::string& setting : use) add_use(uses, setting, *model.program);
  for (const std::string& setting : with) add_amending_use(uses, setting, *model.program);
  s.uses = uses.said, s.fillers = uses.files;
  std::vector<ProgramText> all{s.text};
  all.insert(all.end(), s.fillers.begin(), s.fillers.end());
  add_sources(*checked_text(s), all);
  s.fillers.assign(all.begin() + 1, all.end());
}

Model make_text_model(const ModelSettings& s, Index vocabulary) {
  check_settings(s);
  const std::shared_ptr<const Checked> program = checked_text(s);
  SizesByName sizes = s.dims;
  const auto set = [&](const char* name, Index size) {
    if (has_size(*program, name)) sizes.try_emplace(name, size);
  };
  set("v", vocabulary), set("l", s.layers), set("d_X", s.d_model), set("max_n", s.context);
  set("max_m", s.context);
  set("h", s.heads.value_or(default_heads));
  if (s.d_ff > 0) sizes.try_emplace("f", s.d_ff);
  return Model(program, sizes);
}

LanguageModel make_model(const ModelSettings& s, const ChosenSites& sites, Index vocabulary) {
  return LanguageModel(model_config(s, vocabulary), attention_of(sites.decoder, true));
}

EncoderDecoder make_encoder_decoder(const ModelSettings& s, const ChosenSites& sites,
                                    Index vocabulary) {
  return EncoderDecoder(model_config(s, vocabulary), attention_of(sites));
}

}  // namespace tete
