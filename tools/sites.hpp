// Options that say which attention is where, and the attention that follows for every site.
#pragma once
#include <string>
#include <vector>

#include "tools/model.hpp"

namespace tete {

struct SiteOptions {
  std::string encoder, decoder, cross;  // in place of --attention
  std::vector<std::string> layers;      // "3=NAME", "encoder/3=NAME"
};
// --attention-encoder and the like.
void add_site_options(CLI::App& app, SiteOptions& options);
// Reads what they name into settings.sites. Fails on a place that is none.
void read_sites(ModelSettings& settings, const SiteOptions& options);
// The name or the file in "t5_bias", or in "self=t5_bias", for some sites only; and its text.
std::string without_site(const std::string& setting);
Amendment read_site_amendment(const std::string& setting);

// A model as options ask for it: --attention and its like, --with, --dim, and its shape.
struct ModelOptions {
  std::string attention = "talking_heads", style = "t5";
  std::string whole = {};  // --model
  SiteOptions sites = {};
  std::vector<std::string> with = {}, dim = {}, use = {};
  ModelSettings model = {};
};
void add_model_options(CLI::App& app, ModelOptions& options);
// The options so far that shape the model in the place of --model. A configuration has all of them,
// so this is asked before one is read.
std::vector<std::string> said_beside_model(const CLI::App& app);
// Where there is a model's text: those of them that fill its slots become --use. Fails on the
// others, and on --use without a model's text.
void use_for_model(ModelOptions& options, CLI::App& app, const std::vector<std::string>& said);
// Reads what they name, all but whether there is an encoder, into options.model.
void read_model(ModelOptions& options, CLI::App& app);

// Every site of the settings' model, unless that is a text, with its text, amended and checked for
// what is asked of it there: a decoder's self-attention must be causal, cross-attention must take
// another memory, and padding must be hidden. A size of the settings counts where the text has it,
// and must be some text's. Fails in a sentence that names the option.
ChosenSites choose_sites(const ModelSettings& settings);
// A sentence for each text that loses the scale of its logits to the settings' initialisation.
std::vector<std::string> start_warnings(const ModelSettings& settings, const ChosenSites& sites);

}  // namespace tete
