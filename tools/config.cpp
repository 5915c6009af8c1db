#include "tools/config.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "attention/catalog.hpp"
#include "core/utf8.hpp"
#include "tools/options.hpp"
#include "tools/sites.hpp"
#include "train/files.hpp"
#include "train/json.hpp"

namespace tete {

using nlohmann::ordered_json;
using Items = std::vector<CLI::ConfigItem>;

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
  return key == "text" || key == "with" || key.starts_with("attention");
}

// The offset of the file's name in "FILE" or, after a site, "SITE=FILE".
static size_t file_part(const std::string& key, const std::string& value) {
  if (key == "attention-layer") return value.find('=') + 1;  // 0 where there is none
  return key == "with" ? value.size() - without_site(value).size() : 0;
}

// The same value with its file, if there is one, seen from `folder`. A variant's name is no file,
// whatever files there are.
static std::string file_from(const std::filesystem::path& folder, const std::string& key,
                             const std::string& value) {
  const size_t at = file_part(key, value);
  const std::string file = value.substr(at);
  if (key != "text" && !is_program_path(file)) return value;
  std::error_code ignored;
  const auto path = (folder / file).lexically_normal();
  return std::filesystem::is_regular_file(path, ignored) ? value.substr(0, at) + path.string()
                                                         : value;
}

// ---- Reading ----

// The line without its comment. Fails on what CLI11 would misread; `place` is "FILE:LINE".
static std::string without_comment(const std::string& place, const std::string& line) {
  char quote = 0;
  int depth = 0;  // of brackets
  size_t end = 0;
  for (; end < line.size() && (quote || line[end] != '#'); ++end) {
    const char c = line[end];
    if (c == '\\') bad_input(place, ": TOML is read without escapes; JSON can have a backslash");
    if (!quote && (line.compare(end, 3, "\"\"\"") == 0 || line.compare(end, 3, "'''") == 0))
      bad_input(place, ": a string is written in single quotation marks, not in three");
    if (!quote && c == '{')
      bad_input(place,
                ": a table in braces is not read; write [dim], and its sizes on lines below");
    if (!quote) depth += (c == '[') - (c == ']');
    if (quote ? c == quote : c == '"' || c == '\'') quote = quote ? '\0' : c;
  }
  if (quote) bad_input(place, ": a string must end on its line; JSON can have any");
  if (depth > 0) bad_input(place, ": a list must end on its line; JSON can have any");
  return line.substr(0, end);
}

// CLI11 cuts lines at '#' even in a string, and knows neither escapes nor values of several lines.
static std::string without_comments(const std::string& path, const std::string& contents) {
  std::istringstream in(contents);
  std::string line, all;
  for (size_t number = 1; std::getline(in, line); ++number)
    all += without_comment(text(path, ":", number), line) + "\n";
  return all;
}

static Items items_of_toml(const std::string& path, const std::string& contents) {
  std::istringstream in(without_comments(path, contents));
  CLI::ConfigTOML reader;
  reader.comment('\0');
  Items items;
  for (CLI::ConfigItem& item : reader.from_config(in)) {
    if (item.name == "++" || item.name == "--") continue;  // a section opens, closes
    if (item.parents.size() > 1)
      bad_input(path, ": there is no section '", shortened(item.fullname()), "'");
    // [dim] with h_k = 4 is --dim h_k=4.
    if (item.parents.size() == 1) {
      for (std::string& size : item.inputs) size = item.name + "=" + size;
      item.name = item.parents[0];
    }
    items.push_back(std::move(item));
  }
  return items;
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

static Items items_of_json(CLI::App& verb, const std::string& path, const std::string& contents) {
  const ordered_json parsed = parsed_json(path, contents);
  Items items;
  for (const auto& [key, value] : parsed.items()) {
    CLI::ConfigItem item{{}, key, {}};
    if (value.is_structured() && !is_list(option_of(verb, path, key))) word_of(path, key, value);
    if (value.is_object())  // "dim": {"h_k": 4} is --dim h_k=4
      for (const auto& [name, size] : value.items())
        item.inputs.push_back(name + "=" + word_of(path, key, size));
    else if (value.is_array())
      for (const ordered_json& each : value) item.inputs.push_back(word_of(path, key, each));
    else if (!value.is_null()) item.inputs = {word_of(path, key, value)};
    items.push_back(std::move(item));
  }
  return items;
}

static void add_values(CLI::Option& option, const std::string& place, const CLI::ConfigItem& item) {
  const std::filesystem::path folder = std::filesystem::path(place).parent_path();
  const std::string key = option.get_lnames().front();
  for (const std::string& value : item.inputs)
    if (value.find('\0') != std::string::npos)
      bad_input(place, ": '", item.name, "' has the character U+0000 in '", shortened(value), "'");
  if (is_flag(option) && !item.inputs.empty() &&
      (item.inputs.size() > 1 || (item.inputs[0] != "true" && item.inputs[0] != "false")))
    bad_input(place, ": '", item.name, "' is true or false");
  for (const std::string& value : item.inputs)
    option.add_result(is_flag(option)    ? option.get_flag_value(item.name, value)
                      : names_files(key) ? file_from(folder, key, value)
                                         : value);
}

static void apply(CLI::App& verb, const std::string& place, const Items& items) {
  std::vector<CLI::Option*> set;
  for (const CLI::ConfigItem& item : items) {
    CLI::Option& option = option_of(verb, place, item.name);
    const bool again = std::find(set.begin(), set.end(), &option) != set.end();
    if (option.count() > 0 && !again) continue;  // what was said before wins
    if (again && item.parents.empty()) bad_input(place, ": '", item.name, "' is set twice");
    if (!again) set.push_back(&option);
    add_values(option, place, item);
  }
  for (CLI::Option* option : set) {
    if (option->count() == 0) continue;
    try {
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      bad_input(place, ": ", sentence_of(error));
    }
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
  apply(verb, path, is_json ? items_of_json(verb, path, contents) : items_of_toml(path, contents));
}

void apply_config(CLI::App& verb, const std::string& place, const std::string& toml) {
  apply(verb, place, items_of_toml(place, toml));
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
  if (is_flag(option)) return option.count() > 0 ? option.as<bool>() : preset == "true";
  std::vector<std::string> values = option.results();
  if (values.empty() && !preset.empty()) values = {preset};
  if (!is_list(option)) return values.empty() ? ordered_json() : value_of(option, values.back());
  ordered_json all = ordered_json::array();
  for (const std::string& value : values) all.push_back(value_of(option, value));
  return all;
}

ordered_json configuration_of(const CLI::App& verb) {
  const std::set<std::string> not_of_the_run = {"out", "threads", "json"};
  ordered_json all;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string& key = option->get_lnames().front();
    if (option->get_configurable() && !not_of_the_run.contains(key)) all[key] = recorded(*option);
  }
  return all;
}

std::string config_json(const CLI::App& verb) { return configuration_of(verb).dump(2) + "\n"; }

}  // namespace tete
