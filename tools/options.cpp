#include "tools/options.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <vector>

#include "core/cpu/rows.hpp"
#include "core/threads.hpp"
#include "tools/build_info.hpp"
#include "train/files.hpp"
#include "train/machine.hpp"

namespace tete {

static std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// ---- Help ----

static constexpr size_t help_width = 80, help_column = 28;

// `words` from column `at` on, wrapped at help_width and indented to help_column.
static std::string wrapped(const std::string& words, size_t at) {
  std::istringstream in(words);
  std::string out, word;
  if (at >= help_column) out += "\n", at = 0;
  out += std::string(help_column - at, ' ');
  at = help_column;
  while (in >> word) {
    if (at > help_column && at + 1 + word.size() > help_width) {
      out += "\n" + std::string(help_column, ' ');
      at = help_column;
    }
    if (at > help_column) out += ' ', ++at;
    out += word;
    at += word.size();
  }
  return out;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  if (!is_positional && option->get_positional()) return "";  // it stands among the positionals
  std::string left = "  ";
  if (is_positional) {
    left += option->get_name(true);
  } else {
    for (const std::string& name : option->get_snames()) left += "-" + name + ", ";
    if (!option->get_lnames().empty()) left += "--" + option->get_lnames().front();
    if (option->get_items_expected_max() > 0) left += " " + option->get_type_name();
  }
  std::string right = option->get_description();
  if (!option->get_default_str().empty() && option->get_items_expected_max() > 0)
    right += " [" + option->get_default_str() + "]";
  return left + wrapped(right, left.size()) + "\n";
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string help = CLI::Formatter::make_help(app, name, mode);
  for (size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
  return help;
}

// ---- Options that several verbs have ----

CLI::Option* add_threads(CLI::App& app, int& threads) {
  return app
      .add_option("--threads", threads,
                  "threads to compute with; results do not depend on it (default: one for each "
                  "usable core)")
      ->type_name("N");
}

void use_threads(int wanted) {
  if (wanted < 0 || wanted > 1024) bad_input("--threads ", wanted, ": expected 1 to 1024");
  set_threads(wanted > 0 ? wanted : std::max(1, inspect_machine().usable));
}

CLI::Option* add_precision(CLI::App& app, std::string& precision) {
  return app
      .add_option("--precision", precision,
                  "f32, or bf16: matrix products of numbers rounded to bfloat16, summed in f32")
      ->type_name("TYPE")
      ->capture_default_str();
}

CLI::Option* add_recompute_blocks(CLI::App& app, bool& recompute_blocks) {
  return app.add_flag("--recompute-blocks,--gradient_checkpointing", recompute_blocks,
                      "keep only each block's input for the gradient: less memory, more time");
}

Products products_of(const std::string& precision) {
  if (precision == "f32") return Products::full;
  if (precision != "bf16") bad_input("--precision ", precision, ": expected f32 or bf16");
  if (!cpu_kernels::has_bf16())
    std::fputs("this processor has no products of bfloat16: they are made of f32's, and slower\n",
               stderr);
  return Products::bf16;
}

std::string program_version() { return text("tete ", TETE_VERSION, " (", TETE_COMMIT, ")"); }

// ---- Configuration files ----

// The number of the line that sets `key`, for an error.
static size_t key_line(const std::string& contents, const std::string& key) {
  std::istringstream in(contents);
  std::string line;
  for (size_t number = 1; std::getline(in, line); ++number) {
    const size_t at = line.find_first_not_of(" \t[\"'");
    if (at == std::string::npos || line.compare(at, key.size(), key) != 0) continue;
    const size_t end = line.find_first_not_of(" \t\"'", at + key.size());
    if (end != std::string::npos && (line[end] == '=' || line[end] == ']')) return number;
  }
  return 1;
}

// A line that is neither empty, a comment, a section nor `key = value`.
static void refuse_stray_lines(const std::string& path, const std::string& contents) {
  std::istringstream in(contents);
  std::string line;
  int open = 0;  // brackets of an array that goes on
  for (size_t number = 1; std::getline(in, line); ++number) {
    const size_t at = line.find_first_not_of(" \t\r");
    const bool inside = open > 0;
    const bool blank = at == std::string::npos || line[at] == '#';
    if (!blank)
      open += static_cast<int>(std::count(line.begin(), line.end(), '[') -
                               std::count(line.begin(), line.end(), ']'));
    if (blank || inside || line[at] == '[' || line.find('=', at) != std::string::npos) continue;
    bad_input(path, ":", number, ": expected 'key = value', got '", line.substr(at), "'");
  }
}

bool names_files(const std::string& key) {
  return key == "text" || key == "with" || key.starts_with("attention");
}

size_t file_part(const std::string& value) {
  std::error_code ignored;
  const size_t is = value.find('=');
  if (is == std::string::npos || std::filesystem::exists(value, ignored)) return 0;
  return is + 1;
}

// A file that is named in a configuration file lies where that says, seen from there.
static std::string beside(const std::string& config, const std::string& value) {
  std::error_code ignored;
  const size_t at = file_part(value);
  const auto path = std::filesystem::path(config).parent_path() / value.substr(at);
  return std::filesystem::is_regular_file(path, ignored) ? value.substr(0, at) + path.string()
                                                         : value;
}

void read_config(CLI::App& verb, const std::string& path) {
  apply_config(verb, path, read_file(path));
}

void apply_config(CLI::App& verb, const std::string& path, const std::string& contents) {
  refuse_stray_lines(path, contents);
  std::vector<CLI::ConfigItem> items;
  try {
    std::istringstream in(contents);
    items = CLI::ConfigTOML().from_config(in);
  } catch (const CLI::Error& error) {
    bad_input(path, ": ", error.what());
  }
  std::vector<CLI::Option*> touched;
  for (CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // a section opens, closes
    std::string key = item.name;
    // [dim] with h_k = 4 is --dim h_k=4.
    if (item.parents.size() == 1 && item.inputs.size() == 1) {
      key = item.parents[0];
      item.inputs[0] = item.name + "=" + item.inputs[0];
    }
    const std::string place = text(path, ":", key_line(contents, item.name), ": ");
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', '-');
    CLI::Option* option = verb.get_option_no_throw("--" + key);
    if (!option) option = verb.get_option_no_throw("--" + name);
    if (!option || key == "config" || key == "help")
      bad_input(place, "there is no key '", key, "'", suggestion("--" + name, long_names(verb)));
    const bool mine = std::find(touched.begin(), touched.end(), option) != touched.end();
    if (option->count() > 0 && !mine) continue;  // the command line wins
    if (mine && item.parents.empty()) bad_input(place, "'", key, "' is set twice");
    if (!mine) touched.push_back(option);
    if (option->get_items_expected_max() == 0) {
      if (item.inputs.size() != 1 || (item.inputs[0] != "true" && item.inputs[0] != "false"))
        bad_input(place, "'", key, "' is true or false");
      if (item.inputs[0] == "true") option->add_result("true");
      continue;
    }
    for (const std::string& value : item.inputs)
      option->add_result(names_files(key) ? beside(path, value) : value);
  }
  for (CLI::Option* option : touched) {
    if (option->count() == 0) continue;
    const std::string key = option->get_lnames().front();
    try {
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      bad_input(path, ":", key_line(contents, key), ": ", sentence_of(error));
    }
  }
}

// ---- Output ----

void speak_beside(const std::string& path) {
  if (named_descriptor(path) != STDOUT_FILENO) return;
  std::cout.flush();
  std::fflush(stdout);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

// ---- Mistakes ----

void refuse_unknown(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty()) return;
  // An option is more telling than what may have been meant as its value.
  auto at =
      std::find_if(rest.begin(), rest.end(), [](const auto& a) { return a.starts_with("-"); });
  if (at == rest.end()) {
    std::vector<std::string> words;
    std::string all;
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
      words.push_back(sub->get_name());
      all += (all.empty() ? "" : ", ") + words.back();
    }
    if (!words.empty())
      bad_input("'", rest[0], "' is not one of ", all, suggestion(rest[0], words));
    bad_input("'", rest[0], "' is one argument too many");
  }
  const std::string name = at->substr(0, at->find('='));
  bad_input("there is no option '", name, "'", suggestion(name, long_names(app)));
}

std::string sentence_of(const CLI::ParseError& error) {
  const std::string said = error.what();
  const std::string conversion = "Could not convert: ", missing = " required ";
  if (said.starts_with(conversion)) {
    const size_t is = said.find(" = ");
    if (is != std::string::npos)
      return text(said.substr(conversion.size(), is - conversion.size()), ": '",
                  said.substr(is + 3), "' is not a value that it can take");
  }
  const size_t colon = said.find(": ");
  if (colon != std::string::npos && said.find(missing) != std::string::npos)
    return said.substr(0, colon) + " needs a value";
  return said;
}

}  // namespace tete
