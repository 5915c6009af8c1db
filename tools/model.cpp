#include "tools/model.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/json_number.hpp"
#include "tools/uses.hpp"

namespace tete {

using nlohmann::ordered_json;

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
static void read_field(const ordered_json& object, const std::string& key,
                       std::optional<Index>& to) {
  if (const ordered_json& value = field(object, key); !value.is_null())
    to = whole_number(key, value);
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

ordered_json to_json(const ModelSettings& s) {
  ordered_json json;
  json["text"] = to_json(s.text);
  json["uses"] = ordered_json::array();
  for (const SlotUse& use : s.uses) json["uses"].push_back(use.said);
  json["fillers"] = ordered_json::array();
  for (const ProgramText& filler : s.fillers) json["fillers"].push_back(to_json(filler));
  json["dim"] = s.dims;
  json["layers"] = or_null(s.layers);
  json["heads"] = or_null(s.heads);
  json["d_model"] = or_null(s.d_model);
  json["d_ff"] = s.d_ff;
  json["context"] = s.context;
  json["init"] = s.init;
  return json;
}

ModelSettings settings_from_json(const ordered_json& json) {
  if (!json.is_object()) unexpected("model", json, "an object");
  if (!json.contains("text") && json.contains("attention"))
    bad_input(
        "its model was made before models were texts, and only the version of tete that "
        "trained it can read it");
  ModelSettings s;
  s.text = program_from_json("text", field(json, "text"));
  for (const ordered_json& use : list_field(json, "uses")) {
    if (!use.is_string()) unexpected("uses", use, "a string");
    s.uses.push_back({use.get<std::string>()});
  }
  for (const ordered_json& filler : list_field(json, "fillers"))
    s.fillers.push_back(program_from_json("fillers", filler));
  for (const auto& [name, size] : object_field(json, "dim").items())
    s.dims[name] = whole_number(name, size);
  read_field(json, "layers", s.layers);
  read_field(json, "heads", s.heads);
  read_field(json, "d_model", s.d_model);
  read_field(json, "d_ff", s.d_ff);
  read_field(json, "context", s.context);
  read_field(json, "init", s.init);
  return s;
}

// ---- Checks ----

static void in_range(const char* option, Index value, Index low, Index high) {
  if (value < low || value > high) bad_input(option, " ", value, ": expected ", low, " to ", high);
}

void check_settings(const ModelSettings& s) {
  if (s.layers) in_range("--layers", *s.layers, 1, 1000);
  if (s.heads) in_range("--heads", *s.heads, 1, 1024);
  if (s.d_model) in_range("--d-model", *s.d_model, 1, 65536);
  in_range("--d-ff", s.d_ff, 0, 1 << 20);
  in_range("--context", s.context, 1, 1 << 20);
  for (const auto& [name, size] : s.dims) in_range(text("--dim ", name).c_str(), size, 1, 1 << 20);
  init_rule(s.init);
}

// ---- The model ----

namespace {

std::shared_ptr<const Checked> checked_text(const ModelSettings& s) {
  return std::make_shared<const Checked>(check(Program::parse(s.text.text, s.text.place), {},
                                               library_of(s.fillers), programs_of(s.uses)));
}

// Adds the texts that a checked one was made from, but for those that are there.
void add_sources(const Checked& program, std::vector<ProgramText>& texts) {
  for (const auto& source : program.sources) {
    const bool known = std::any_of(texts.begin(), texts.end(), [&](const ProgramText& text) {
      return text.place == source->name && text.text == source->text;
    });
    if (!known) texts.push_back({name_of_source(*source), source->name, source->text});
  }
  visit_called(program, [&](const Checked& inner) { add_sources(inner, texts); });
}

// True if a size of this name counts in the text or in what it calls.
bool uses_size(const Checked& program, const std::string& name) {
  const int dim = program.find_dimension(name);
  const auto has = [&](const CheckedValue& v) { return v.dims.contains(dim); };
  bool found = dim >= 0 && std::any_of(program.values.begin(), program.values.end(), has);
  visit_called(program, [&](const Checked& inner) { found = found || uses_size(inner, name); });
  return found;
}

// Visits the sizes of the text, and of what it calls, that follow from no tensor and no caller.
// `call` brings sizes from around the text; none for the model itself.
template <class See>
void visit_free_sizes(const Checked& program, const See& see, const CheckedCall* call = nullptr) {
  for (size_t i = 0; i < program.dimensions.size(); ++i) {
    const Dimension& d = program.dimensions[i];
    const bool is_brought =
        call && std::any_of(call->sizes.begin(), call->sizes.end(),
                            [&](const auto& size) { return size.inner == static_cast<int>(i); });
    if (d.arguments.empty() && d.outer < 0 && !is_brought) see(d);
  }
  for (const CheckedCall& all : program.calls)
    visit(all, [&](const CheckedCall& inner) { visit_free_sizes(*inner.program, see, &inner); });
}

// True if a size of this name has no default either. A sequence is as long as what is read.
bool leaves_open(const Checked& program, const std::string& name) {
  bool open = false;
  visit_free_sizes(program, [&](const Dimension& d) {
    open |= d.short_name() == name && d.fallback.empty() && d.role == Role::none;
  });
  return open;
}

// Refuses sizes that decide nothing, as each one of that name is a tensor's.
void check_decides(const Checked& program, const SizesByName& sizes) {
  for (const auto& set : sizes) {
    const std::string& name = set.first;
    bool is_free = !has_size(program, name);  // what is no size at all is told with those that are
    visit_free_sizes(program, [&](const Dimension& d) { is_free |= d.short_name() == name; });
    if (!is_free)
      bad_input("--dim ", name, "=", set.second, " decides nothing: '", name,
                "' is a dimension of what the texts read; --context sets the tokens of a model");
  }
}

}  // namespace

void read_model_text(ModelSettings& s, const Variant& model, const std::vector<SlotUse>& uses,
                     const std::vector<std::string>& with) {
  s.text = {model.name, model.program->source->name, model.program->source->text};
  SlotUses all_uses{.kept = s.fillers};
  for (const SlotUse& use : uses) add_use(all_uses, use, *model.program);
  for (const std::string& setting : with) add_amending_use(all_uses, setting, *model.program);
  s.uses = all_uses.said, s.fillers = all_uses.files;
  for (const ProgramText& kept : all_uses.kept)
    if (!find_named(kept.name, s.fillers)) s.fillers.push_back(kept);
  std::vector<ProgramText> all{s.text};
  all.insert(all.end(), s.fillers.begin(), s.fillers.end());
  add_sources(*checked_text(s), all);
  s.fillers.assign(all.begin() + 1, all.end());
}

Model make_model(const ModelSettings& s, Index vocabulary) {
  check_settings(s);
  const std::shared_ptr<const Checked> program = checked_text(s);
  if (s.heads && !uses_size(*program, "h"))
    bad_input("--heads ", *s.heads, ": no attention of ", described(s), " has heads, h");
  for (const auto& [name, option] :
       {std::pair{"v", "the tokenizer says it"}, {"l", "say --layers"}, {"d_X", "say --d-model"}})
    if (s.dims.contains(name))
      bad_input("--dim ", name, "=", s.dims.at(name), " is no size to set here: ", option);
  check_decides(*program, s.dims);
  SizesByName sizes = s.dims;
  const auto set = [&](const char* name, Index size) {
    if (has_size(*program, name)) sizes.try_emplace(name, size);
  };
  for (int input : program->inputs)  // whatever the text calls the kinds of its tokens
    if (const CheckedValue& v = program->values[input]; v.below >= 0 && v.name != "S")
      set(program->dimensions[v.below].name.c_str(), vocabulary);
  set("max_n", s.context), set("max_m", s.context);
  const auto set_or = [&](const char* name, const std::optional<Index>& said, Index preset) {
    if (said) set(name, *said);
    else if (leaves_open(*program, name)) sizes.try_emplace(name, preset);
  };
  set_or("l", s.layers, 4), set_or("h", s.heads, 4), set_or("d_X", s.d_model, 128);
  if (s.d_ff > 0) sizes.try_emplace("f", s.d_ff);
  return Model(program, sizes, init_rule(s.init));
}

std::optional<Index> size_of(const Model& model, const std::string& name) {
  SizeTable sizes = model.sizes();
  const int dim = model.program().find_dimension(name);
  return dim < 0 ? std::nullopt : sizes.find(dim);
}

std::string shape_of(const Model& model) {
  std::string shape;
  if (const auto layers = size_of(model, "l")) shape += counted(*layers, "layer") + ", ";
  if (const auto heads = size_of(model, "h")) shape += counted(*heads, "head") + ", ";
  if (const auto width = size_of(model, "d_X")) shape += text(*width, " wide, ");
  return shape;
}

std::string described(const ModelSettings& s) {
  std::string uses;
  for (const SlotUse& use : s.uses) uses += (uses.empty() ? " (" : "; ") + use.said;
  return s.text.name + uses + (uses.empty() ? "" : ")");
}

// ---- How its parameters start ----

namespace {

// The parameter whose start has the factor 1/sqrt(d_k) of the text's logits, as in (d_X*d_k)^-0.5;
// "" if there is none. Where it starts otherwise, the logits are not scaled.
std::string holder_of_scale(const Checked& program) {
  const auto name_of = [&](int dim) { return program.dimensions[dim].short_name(); };
  std::string width;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (const CheckedValue& input = program.values[program.inputs[i]];
        program.input_names[i] == "X" && !input.dims.empty())
      width = name_of(input.dims.back());
  for (const CheckedParameter& p : program.parameters) {
    if (!Initializer{p.start->kind}.is_spread()) continue;
    bool has_width = false, has_d_k = false;
    for (const Node& arg : p.args)
      visit(arg, [&](const Node& node) {
        if (node.kind != NodeKind::size) return;
        has_width |= name_of(node.index) == width;
        has_d_k |= name_of(node.index) == "d_k";
      });
    if (has_width && has_d_k) return p.name;
  }
  return "";
}

// Adds those of a program and of what it calls, by def.
void find_holders(const Checked& program, std::map<std::string, std::string>& holders) {
  if (const std::string holder = holder_of_scale(program); !holder.empty())
    holders[program.name] = holder;
  visit_called(program, [&](const Checked& inner) { find_holders(inner, holders); });
}

}  // namespace

std::vector<std::string> start_warnings(const ModelSettings& settings, const Model& model) {
  if (settings.init != "gpt2") return {};
  std::map<std::string, std::string> holders;
  find_holders(model.program(), holders);
  std::vector<std::string> sentences;
  for (const auto& [def, holder] : holders) {
    std::string instead = "a text that divides them by sqrt(d_k) keeps it";
    for (const Variant& variant : variants())
      if (main_def(*variant.program).word.name == def + "Scaled")
        instead = variant.name + " divides them by sqrt(d_k)";
    sentences.push_back(text("the logits of '", def, "' are not scaled: the text has the factor ",
                             "1/sqrt(d_k) in the start of ", holder,
                             ", which gpt2's initialisation replaces; ", instead));
  }
  return sentences;
}

ModelInputs inputs_of(ModelKind kind, const Batch& batch) {
  if (kind != ModelKind::encoder_decoder) return {.X = batch.input};
  return {.X = shifted_right(batch.target), .M = batch.input, .lengths = batch.lengths};
}

}  // namespace tete
