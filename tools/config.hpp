// Configurations: the options of a verb as a file gives them, and as a run's folder keeps them.
#pragma once
#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tete {

// A file of options by their long names, in JSON (its name ends in .json, or it begins with a
// brace) or in TOML. What is said already, as on the command line, wins. A file that is named in it
// is looked for beside it first. Fails (input) on an unknown key, with the nearest.
void read_config(CLI::App& verb, const std::string& path);
// The same for TOML that is no file; errors call it `place`.
void apply_config(CLI::App& verb, const std::string& place, const std::string& toml);

// Every option of `verb` that can be set but --out, --threads and --json, by its long name: read
// again it makes the same run. null: nothing said it, and it has no default of its own. Files are
// given by their whole path. Fails (input) on a value that is not UTF-8.
nlohmann::ordered_json configuration_of(const CLI::App& verb);
// The contents of a run's config.json.
std::string config_json(const CLI::App& verb);

// "--heads" and all others, or those alone that a file can set.
std::vector<std::string> long_names(const CLI::App& app, bool of_files = false);

}  // namespace tete
