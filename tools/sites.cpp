#include "tools/sites.hpp"

#include "tools/options.hpp"
#include "tools/uses.hpp"

namespace tete {

// ---- Options ----

void add_site_options(CLI::App& app, SiteOptions& o) {
  const auto add = [&](const char* name, std::string& value, const char* what) {
    app.add_option(name, value, what)->type_name("NAME|FILE");
  };
  add("--attention-encoder", o.encoder, "another for the encoder's layers");
  add("--attention-decoder", o.decoder, "another for the decoder's self-attention");
  add("--attention-cross", o.cross, "another for attention to what the encoder made");
  add_list(app, "--attention-layer", o.layers,
           "another for one layer, from 0: 3=NAME, or encoder/3=NAME, decoder/3=NAME, cross/3=NAME")
      ->type_name("LAYER=NAME");
}

// "3", or "cross/3" where there is an encoder, as a key of ModelSettings::sites.
static std::string layer_site(const ModelSettings& m, const std::string& where,
                              const std::string& option) {
  const size_t slash = where.find('/');
  const std::string stack = slash == std::string::npos ? "" : where.substr(0, slash);
  const std::string digits = slash == std::string::npos ? where : where.substr(slash + 1);
  const bool is_stack = m.encoder ? stack == "encoder" || stack == "decoder" || stack == "cross"
                                  : stack.empty() || stack == "decoder";
  if (!is_stack || digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    bad_input(option, ": expected ",
              m.encoder ? "encoder/LAYER=NAME, decoder/LAYER=NAME or cross/LAYER=NAME"
                        : "LAYER=NAME, as in --attention-layer 3=multi_head");
  const Index layer = std::stoll(digits);
  if (layer >= m.layers)
    bad_input(option, ": the layers are 0 to ", m.layers - 1, " (--layers ", m.layers, ")");
  return text(stack.empty() ? "decoder" : stack, "/", layer);
}

void read_sites(ModelSettings& m, const SiteOptions& o) {
  const auto stack = [&](const char* site, const std::string& name) {
    if (name.empty()) return;
    if (!m.encoder && site != std::string("decoder"))
      bad_input("--attention-", site, " ", name,
                ": the model has no encoder; --task reverse trains one that has");
    m.sites[site] = read_text(name);
  };
  stack("encoder", o.encoder), stack("decoder", o.decoder), stack("cross", o.cross);
  for (const std::string& setting : o.layers) {
    const std::string option = "--attention-layer " + setting;
    const size_t is = setting.find('=');
    const std::string site = layer_site(m, setting.substr(0, is), option);
    if (is == std::string::npos || is + 1 == setting.size())
      bad_input(option, ": expected a variant's name after the layer, as in ",
                setting.substr(0, is), "=multi_head");
    if (!m.sites.emplace(site, read_text(setting.substr(is + 1))).second)
      bad_input(option, ": the layer is set twice");
  }
}

std::string without_site(const std::string& setting) {
  for (const std::string sites : {"self=", "encoder=", "decoder=", "cross="})
    if (setting.starts_with(sites)) return setting.substr(sites.size());
  return setting;
}

Amendment read_site_amendment(const std::string& setting) {
  const std::string name = without_site(setting);
  const size_t is = setting.size() - name.size();
  return {read_amendment(name), setting.substr(0, is > 0 ? is - 1 : 0)};
}

void add_model_options(CLI::App& app, ModelOptions& o) {
  app.option_defaults()->group("Model");
  app.add_option("--attention", o.attention, "a variant (tete list), or a file in the notation")
      ->type_name("NAME|FILE")
      ->capture_default_str();
  app.add_option("--model", o.whole,
                 "a whole model (tete list --models), or a file, in place of --attention")
      ->type_name("NAME|FILE");
  add_uses(app, o.use);
  add_site_options(app, o.sites);
  add_list(app, "--with", o.with,
           "amend it: position schemes and the like; for some sites only: self=NAME, encoder=, "
           "decoder=, cross=")
      ->type_name("NAME|FILE");
  add_list(app, "--dim", o.dim, "set a size of the variant's text: --dim h_k=4")
      ->type_name("NAME=SIZE");
  add_shape_options(app, o.model, o.style);
}

namespace {

// An option that fills a slot; `prefix` stands before names that are short for a text's.
struct ShortForm {
  const char* option;
  const char* slot;
  const char* prefix;
};
constexpr ShortForm short_forms[] = {{"--attention", "Attention", ""},
                                     {"--attention-encoder", "encoder.Attention", ""},
                                     {"--attention-decoder", "decoder.Attention", ""},
                                     {"--attention-cross", "Cross", ""},
                                     {"--norm", "Norm", "norm_"},
                                     {"--activation", "FeedForward", "ff_"}};
constexpr const char* of_layers = "--attention-layer";
constexpr const char* not_slots[] = {"--style", "--bias", "--positions", "--tied", "--init"};

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "3=NAME" is Attention[3]=NAME, "cross/3=NAME" Cross[3]=NAME.
std::string layer_use(const std::string& setting) {
  const size_t slash = setting.find('/'), is = setting.find('=');
  const bool has_stack = slash < is;
  const std::string stack = has_stack ? setting.substr(0, slash) : "";
  if (is == std::string::npos)
    bad_input(of_layers, " ", setting,
              ": expected a text's name after the layer, as in 3=multi_head");
  const size_t first = has_stack ? slash + 1 : 0;
  return text(stack == "cross" ? "Cross"
              : has_stack      ? stack + ".Attention"
                               : "Attention",
              "[", setting.substr(first, is - first), "]", setting.substr(is));
}

}  // namespace

std::vector<std::string> said_beside_model(const CLI::App& app) {
  std::vector<std::string> said;
  const auto ask = [&](const char* name) {
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option && option->count() > 0) said.push_back(name);
  };
  for (const char* name : not_slots) ask(name);
  for (const ShortForm& form : short_forms) ask(form.option);
  return said;
}

void use_for_model(ModelOptions& o, CLI::App& app, const std::vector<std::string>& said) {
  if (o.whole.empty() && !o.use.empty())
    bad_input("--use ", o.use[0], " fills a slot of a model's text, which --model names");
  if (o.whole.empty()) return;
  for (const char* name : not_slots)
    if (is_among(said, name))
      bad_input(name, " is not an option beside --model, whose text says it: copy the text and ",
                "change it there");
  CLI::Option& use = *app.get_option("--use");
  for (const ShortForm& form : short_forms) {
    CLI::Option* option = app.get_option_no_throw(form.option);
    if (!option || option->count() == 0) continue;
    const std::string value = option->results().back();
    // A configuration tells defaults, too.
    if (!is_among(said, form.option) && value == option->get_default_str()) continue;
    const bool is_short = catalogue().text(form.prefix + value) != nullptr;
    use.add_result(text(form.slot, "=", is_short ? form.prefix : "", value));
    option->clear();
  }
  for (const std::string& setting : o.sites.layers) use.add_result(layer_use(setting));
  if (!o.sites.layers.empty()) app.get_option(of_layers)->clear();
  o.sites = {}, o.attention = app.get_option("--attention")->get_default_str();
  o.model.norm = ModelSettings().norm, o.model.activation = ModelSettings().activation;
  if (use.count() > 0) use.run_callback();
}

void read_model(ModelOptions& o, CLI::App& app) {
  apply_style(o.model, o.style, app);
  for (const std::string& setting : o.dim) set_dim(o.model.dims, setting);
  check_settings(o.model);
  o.model.attention = read_text(o.attention);
  if (!o.whole.empty()) return read_model_text(o.model, o.whole, o.use, o.with);
  read_sites(o.model, o.sites);
  for (const std::string& setting : o.with) o.model.with.push_back(read_site_amendment(setting));
}

// ---- The attention of each site ----

namespace {

// A layer of a kind of site: "encoder", "decoder" (its self-attention) or "cross".
struct Named {
  const char* kind;
  Index layer;
};

bool reaches(const Amendment& amendment, const std::string& kind) {
  return amendment.sites.empty() || amendment.sites == kind ||
         (amendment.sites == "self" && kind != "cross");
}

// The text at a site, and the option that put it there.
struct TextAt {
  const ProgramText* text;
  std::string option;
};
TextAt text_at(const ModelSettings& m, const Named& site) {
  const std::string layer = text(site.kind, "/", site.layer);
  if (const auto own = m.sites.find(layer); own != m.sites.end())
    return {&own->second, text("--attention-layer ", layer, "=", own->second.name)};
  if (const auto stack = m.sites.find(site.kind); stack != m.sites.end())
    return {&stack->second, text("--attention-", site.kind, " ", stack->second.name)};
  return {&m.attention, text("--attention ", m.attention.name)};
}

void check_place(const Checked& program, const std::string& kind, const std::string& option,
                 bool padded) {
  if (kind == "cross" && !attends_across(program))
    bad_input(option, ": it attends to its own sequence only, but cross-attention is to another ",
              "(--attention-cross takes what `tete list` calls cross-attention)");
  if (kind == "decoder" && !program.takes_mask)
    bad_input(option, ": a decoder must not see the future, but no statement of '", program.name,
              "' takes a causal mask: none is a softmax over one of two sequence axes");
  if (kind == "decoder" && !is_causal(program))
    bad_input(option, ": a decoder must not see the future, but ", program.leak);
  if (padded && !program.takes_mask && !program.takes_padding)
    bad_input(option, ": padding must be hidden, but no statement of '", program.name,
              "' takes a mask");
}

// A kind of site has few different texts, however many its layers are.
class Loader {
 public:
  Loader(const ModelSettings& settings, const char* kind) : m_(settings), kind_(kind) {
    for (const Amendment& amendment : settings.with)
      if (reaches(amendment, kind))
        amendments_.push_back(Program::parse(amendment.program.text, amendment.program.place));
  }

  std::shared_ptr<const Checked> at(Index layer) {
    const TextAt chosen = text_at(m_, {kind_, layer});
    auto& program = loaded_[chosen.text];
    if (!program) {
      program = load(chosen);
      check_place(*program, kind_, chosen.option, m_.encoder);
    }
    return program;
  }

 private:
  std::shared_ptr<const Checked> load(const TextAt& chosen) const {
    const Program program = Program::parse(chosen.text->text, chosen.text->place);
    if (amendments_.empty()) return load_attention(program);
    load_attention(program);  // its own mistakes are not the amendments'
    try {
      return load_attention(program, amendments_);
    } catch (const Error& error) {
      if (!m_.encoder && m_.sites.empty()) throw;
      throw Error(
          error.kind(),
          text(chosen.option, ": --with does not fit ",
               kind_ == std::string("cross") ? "cross-attention" : "self-attention",
               " here (--with self=NAME, encoder=, decoder= and cross= say where it goes): ",
               error.what()));
    }
  }

  const ModelSettings& m_;
  const char* kind_;
  std::vector<Program> amendments_;
  std::map<const ProgramText*, std::shared_ptr<const Checked>> loaded_;
};

// Gives each text those of the settings' sizes that it has. One that none has goes to the first,
// which refuses it.
void set_sizes(const ModelSettings& m, const std::vector<ChosenAttention*>& all) {
  const auto someone_has = [&](const std::string& name) {
    return std::any_of(all.begin(), all.end(), [&](const ChosenAttention* chosen) {
      return chosen->program->find_dimension(name) >= 0;
    });
  };
  for (ChosenAttention* chosen : all) {
    const auto counts = [&](const std::string& name) {
      return chosen->program->find_dimension(name) >= 0 ||
             (chosen == all.front() && !someone_has(name));
    };
    ModelSettings own;
    own.d_model = m.d_model;
    if (m.heads && counts("h")) own.heads = m.heads;
    for (const auto& [name, size] : m.dims)
      if (counts(name)) own.dims[name] = size;
    chosen->sizes = attention_sizes(own, *chosen->program);
  }
}

}  // namespace

ChosenSites choose_sites(const ModelSettings& m) {
  if (is_text(m)) return {};
  check_settings(m);
  for (const Amendment& amendment : m.with)
    if (!m.encoder && (amendment.sites == "encoder" || amendment.sites == "cross"))
      bad_input("--with ", amendment.sites, "=", amendment.program.name,
                ": the model has no encoder; --task reverse trains one that has");
  ChosenSites sites;
  std::vector<ChosenAttention*> all;
  const auto choose = [&](const char* kind, std::vector<ChosenAttention>& layers) {
    Loader loader(m, kind);
    for (Index layer = 0; layer < m.layers; ++layer) layers.push_back({loader.at(layer), {}});
    for (ChosenAttention& chosen : layers) all.push_back(&chosen);
  };
  choose("decoder", sites.decoder);
  if (m.encoder) choose("encoder", sites.encoder), choose("cross", sites.cross);
  set_sizes(m, all);
  return sites;
}

// The parameter whose start has the factor 1/sqrt(d_k) of the text's logits, as in (d_X*d_k)^-0.5;
// "" if there is none. Where it starts otherwise, the logits are not scaled.
static std::string holder_of_scale(const Checked& program) {
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

std::vector<std::string> start_warnings(const ModelSettings& settings, const ChosenSites& sites) {
  if (settings.init != "gpt2") return {};
  std::map<std::string, std::string> holders;  // by def
  for (const auto* stack : {&sites.encoder, &sites.decoder, &sites.cross})
    for (const ChosenAttention& chosen : *stack)
      if (const std::string holder = holder_of_scale(*chosen.program); !holder.empty())
        holders[chosen.program->name] = holder;
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

}  // namespace tete
