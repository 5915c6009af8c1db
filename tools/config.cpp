#include "tools/config.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "attention/catalog.hpp"
#include "core/utf8.hpp"
#include "tools/options.hpp"
#include "tools/uses.hpp"
#include "train/files.hpp"
#include "train/json.hpp"

namespace tete {

using nlohmann::ordered_json;

std::vector<std::string> long_names(const CLI::App& app, bool of_files) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (!of_files || option->get_configurable())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

static bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

static bool is_list(const CLI::Option& option) {
  return option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
}

// ---- Files that are named in a configuration ----

static bool names_files(const std::string& key) {
  static const std::set<std::string> keys = {"text", "with",       "use",      "model",
                                             "norm", "activation", "positions"};
  return keys.contains(key) || key.starts_with("attention");
}

// The same value with its files, if there are some, seen from `folder`. A variant's name is no
// file, whatever files there are.
static std::string file_from(const std::filesystem::path& folder, const std::string& key,
                             const std::string& value) {
  const auto from = [&](const std::string& path) { return (folder / path).lexically_normal(); };
  const auto is_there = [&](const std::string& path) { return is_file(from(path).string()); };
  const auto seen = [&](const std::string& path) {
    return is_there(path) ? from(path).string() : path;
  };
  return key == "text" ? seen(value) : with_files(value, seen, is_there);
}

// ---- Reading ----

// A line of TOML as JSON: strings in single quotation marks get double ones, and a comment goes.
// CLI11's own reader ends strings at a '#', and takes "2 3" for a list and a bare name for a flag.
static std::string json_of_toml(const std::string& line) {
  std::string json;
  char quote = 0;
  for (size_t i = 0; i < line.size() && (quote || line[i] != '#'); ++i) {
    const char c = line[i];
    const bool is_mark = quote ? c == quote : c == '"' || c == '\'';
    if (quote == '\'' && (c == '"' || c == '\\')) json += '\\';
    json += is_mark ? '"' : c;
    if (quote == '"' && c == '\\' && i + 1 < line.size()) json += line[++i];
    if (is_mark) quote = quote ? '\0' : c;
  }
  return CLI::detail::trim_copy(json);
}

static ordered_json toml_value(const std::string& place, const std::string& key,
                               const std::string& json) {
  try {
    return parse_json(json);
  } catch (const Error&) {
    bad_input(place, ": '", shortened(key), "' is ", shortened(json),
              ": expected a number, true, false, a string in quotation marks, or a list of them on "
              "this line");
  }
}

// Lines of KEY = VALUE, and sections: [dim] with h_k = 4 is "dim": {"h_k": 4}.
static ordered_json parsed_toml(const std::string& path, const std::string& contents) {
  ordered_json all = ordered_json::object();
  std::istringstream in(contents);
  std::string line, section;
  for (size_t number = 1; std::getline(in, line); ++number) {
    const std::string place = text(path, ":", number);
    line = json_of_toml(line);
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    if (line.front() == '[' && line.back() == ']') {
      section = line.substr(1, line.size() - 2);
      continue;
    }
    if (equals == std::string::npos)
      bad_input(place, ": expected KEY = VALUE, got '", shortened(line), "'");
    const std::string key = CLI::detail::trim_copy(line.substr(0, equals));
    ordered_json& object = section.empty() ? all : all[section];
    if (object.contains(key) || (!object.is_object() && !object.is_null()))
      bad_input(place, ": '", shortened(key), "' is set twice");
    object[key] = toml_value(place, key, CLI::detail::trim_copy(line.substr(equals + 1)));
  }
  return all;
}

static std::string word_of(const std::string& path, const std::string& key,
                           const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  bad_input(path, ": '", key, "' is ", shortened(value.dump()),
            ": expected a string, a number, true, false or null");
}

static ordered_json parsed_json(const std::string& path, const std::string& contents) {
  const ordered_json parsed = [&] {
    try {
      return parse_json(contents);
    } catch (const Error& error) {
      bad_input(path, ": ", error.what());
    }
  }();
  if (parsed.is_object()) return parsed;
  bad_input(path, ": expected options in braces, as in {\"heads\": 8}");
}

// The option of a key, whose words may be joined by '_' as well as by '-'.
static CLI::Option& option_of(CLI::App& verb, const std::string& place, const std::string& key) {
  std::string name = "--" + key;
  CLI::Option* option = verb.get_option_no_throw(name);
  std::replace(name.begin(), name.end(), '_', '-');
  if (!option) option = verb.get_option_no_throw(name);
  const std::string quoted = shortened(key);
  if (!option)
    bad_input(place, ": there is no key '", quoted, "'",
              suggestion(shortened(name), long_names(verb, true)));
  if (!option->get_configurable())
    bad_input(place, ": '", quoted, "' is an option of the command line, but no key of a file");
  return *option;
}

// A value as the command line would have it, a word for each time that the option is given.
static std::vector<std::string> words_of(const std::string& place, const std::string& key,
                                         const CLI::Option& option, const ordered_json& value) {
  std::vector<std::string> words;
  if (value.is_null()) return words;
  if (!value.is_structured() || !is_list(option)) return {word_of(place, key, value)};
  for (const auto& [name, each] : value.items())  // "dim": {"h_k": 4} is --dim h_k=4
    words.push_back((value.is_object() ? name + "=" : "") + word_of(place, key, each));
  return words;
}

static void add_values(CLI::Option& option, const std::string& place, const std::string& key,
                       const std::vector<std::string>& words) {
  const std::filesystem::path folder = std::filesystem::path(place).parent_path();
  const std::string name = option.get_lnames().front();
  for (const std::string& word : words) {
    if (word.find('\0') != std::string::npos)
      bad_input(place, ": '", key, "' has the character U+0000 in '", shortened(word), "'");
    if (is_flag(option) && word != "true" && word != "false")
      bad_input(place, ": '", key, "' is true or false");
    option.add_result(is_flag(option)     ? option.get_flag_value(key, word)
                      : names_files(name) ? file_from(folder, name, word)
                                          : word);
  }
}

static void apply(CLI::App& verb, const std::string& place, const ordered_json& options) {
  std::vector<CLI::Option*> set, met;
  for (const auto& [key, value] : options.items()) {
    CLI::Option& option = option_of(verb, place, key);
    const std::vector<std::string> words = words_of(place, key, option, value);
    if (std::find(met.begin(), met.end(), &option) != met.end())
      bad_input(place, ": '", key, "' is set twice");
    met.push_back(&option);
    if (option.count() > 0 || words.empty()) continue;  // what was said before wins
    set.push_back(&option);
    add_values(option, place, key, words);
  }
  for (CLI::Option* option : set) try {
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      bad_input(place, ": ", sentence_of(error));
    }
}

void read_config(CLI::App& verb, const std::string& path) {
  const std::string contents = read_file(path);
  // Both readers would take it for the end, of the line or of the file.
  if (const size_t nul = contents.find('\0'); nul != std::string::npos)
    bad_input(path, ":", 1 + std::count(contents.begin(), contents.begin() + nul, '\n'),
              ": expected text, got a byte that is 0");
  const size_t begin = contents.find_first_not_of(" \t\r\n");
  const bool is_json =
      path.ends_with(".json") || (begin != std::string::npos && contents[begin] == '{');
  apply(verb, path, is_json ? parsed_json(path, contents) : parsed_toml(path, contents));
}

void apply_config(CLI::App& verb, const std::string& place, const std::string& toml) {
  apply(verb, place, parsed_toml(place, toml));
}

// ---- Writing ----

static ordered_json value_of(const CLI::Option& option, const std::string& value) {
  const std::string key = option.get_lnames().front(), type = option.get_type_name();
  if (type == "X") return option.as<double>();
  if (type == "N")
    if (const auto number = json_or_null(value); number.is_number()) return number;
  if (find_invalid_utf8(value) != std::string::npos)
    bad_input("--", key, " '", printable(value), "': expected UTF-8");
  return names_files(key) ? file_from(std::filesystem::current_path(), key, value) : value;
}

static ordered_json recorded(const CLI::Option& option) {
  const std::string& preset = option.get_default_str();
  if (is_flag(option) && option.count() > 0) return option.as<bool>();
  if (is_flag(option)) return preset.empty() ? ordered_json() : ordered_json(preset == "true");
  std::vector<std::string> values = option.results();
  if (values.empty() && !preset.empty()) values = {preset};
  if (!is_list(option)) return values.empty() ? ordered_json() : value_of(option, values.back());
  ordered_json all = ordered_json::array();
  for (const std::string& value : values) all.push_back(value_of(option, value));
  return all;
}

ordered_json configuration_of(const CLI::App& verb) {
  const std::set<std::string> not_of_the_run = {"out", "threads", "device", "strict-device",
                                                "json"};
  ordered_json all;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string& key = option->get_lnames().front();
    if (option->get_configurable() && !not_of_the_run.contains(key)) all[key] = recorded(*option);
  }
  return all;
}

std::string config_json(const CLI::App& verb) { return configuration_of(verb).dump(2) + "\n"; }

}  // namespace tete
