#include "tools/options.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <limits>
#include <sstream>

#include "core/cpu/rows.hpp"
#include "core/devices.hpp"
#include "core/threads.hpp"
#include "nn/memory.hpp"
#include "tools/config.hpp"
#include "train/files.hpp"
#include "train/machine.hpp"

namespace tete {

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
    for (const std::string& name : option->get_fnames())  // what turns a flag off
      if (name != option->get_lnames().front()) left += ", --" + name;
    if (option->get_items_expected_max() > 0) left += " " + option->get_type_name();
  }
  std::string right = option->get_description();
  if (!option->get_default_str().empty() && option->get_items_expected_max() > 0)
    right += " [" + option->get_default_str() + "]";
  return left + wrapped(right, left.size()) + "\n";
}

std::string HelpFormatter::make_option_usage(const CLI::Option* option) const {
  const std::string name = option->get_name(true) + (option->get_expected_max() > 1 ? "..." : "");
  return option->get_required() ? name : "[" + name + "]";
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
                  "number of threads; results do not depend on it (default: one per usable core)")
      ->type_name("N")
      ->check(within<int64_t>(0, 1024));
}

void use_threads(int wanted) {
  set_threads(wanted > 0 ? wanted : std::max(1, inspect_machine().usable));
}

void add_device(CLI::App& app, DeviceOptions& device) {
  app.add_option("--device", device.name,
                 "device to compute on; " + help_of(devices()) +
                     "; or one of several, as in vulkan:1 or vulkan:radeon (tete devices)")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--strict-device", device.strict,
               "an operation that the device lacks is an error, and not left to the processor");
}

DeviceInUse::DeviceInUse(const DeviceOptions& o) : device_(find_device(o.name)) {
  if (auto* const accelerator = dynamic_cast<Accelerator*>(&device_); accelerator && o.strict)
    accelerator->refuse_fallbacks();
}

DeviceInUse::~DeviceInUse() {
  const auto* const accelerator = dynamic_cast<const Accelerator*>(&device_);
  if (!accelerator) return;
  for (const Fallback& each : accelerator->fallbacks())
    std::fprintf(stderr, "%s lacks %s: %lld times on the processor, %s there and back\n",
                 device_.name(), each.operation.c_str(), static_cast<long long>(each.times),
                 size_text(each.bytes).c_str());
}

CLI::Option* add_precision(CLI::App& app, std::string& precision) {
  return app
      .add_option("--precision", precision,
                  "f32, or bf16 (mixed precision): matrix products of bfloat16, summed in f32")
      ->type_name("TYPE")
      ->capture_default_str();
}

CLI::Option* add_recompute_blocks(CLI::App& app, bool& recompute_blocks) {
  return app.add_flag("--recompute-blocks,--gradient_checkpointing", recompute_blocks,
                      "activation checkpointing: a third slower, one block's memory");
}

Products products_of(const std::string& precision, Backend& on) {
  if (precision == "f32") return Products::full;
  if (precision != "bf16") bad_input("--precision ", precision, ": expected f32 or bf16");
  if (auto* const accelerator = dynamic_cast<Accelerator*>(&on)) {
    if (const std::string why = accelerator->why_bf16_is_no_faster(); !why.empty())
      std::fprintf(stderr,
                   "%s %s: numbers are rounded to bfloat16 and multiplied in f32, no faster\n",
                   on.name(), why.c_str());
  } else if (!cpu_kernels::bf16_is_faster()) {
    std::fputs(
        "this processor multiplies bfloat16 no faster than f32: numbers are rounded to it and "
        "multiplied in f32\n",
        stderr);
  }
  return Products::bf16;
}

CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                      const std::string& what) {
  return app.add_option(name, values, what + "; may be repeated")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->allow_extra_args(false);
}

CLI::Option* take_words(CLI::Option* option) {
  // CLI11 splits "[a,b]" in two if an option takes any number of words; so we name a number.
  constexpr int many = 1 << 20;
  return option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(many, many)
      ->allow_extra_args(false);
}

// ---- Tasks ----

const Task* chosen_task(const std::string& name) {
  if (name == "text" || name == masked_task) return nullptr;
  if (const Task* task = find_task(name)) return task;
  std::vector<std::string> names = names_of_rows(tasks());
  names.insert(names.begin(), {"text", masked_task});
  bad_input("--task ", name, ": expected ", list_of(names, {}, " or "), suggestion(name, names));
}

std::string task_help() {
  return "text: a language model of TEXT; mlm: an encoder (--model bert) fills in masked tokens of "
         "it; " +
         help_of(tasks());
}

// ---- Output ----

void speak_beside(const std::string& path) {
  if (named_descriptor(path) != STDOUT_FILENO) return;
  std::cout.flush();
  std::fflush(stdout);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

// ---- Mistakes ----

// Validators answer with what is wrong, or with "".

static std::string refuse_empty(const std::string& value) {
  return value.empty() ? "expected a value, got ''" : "";
}

// CLI11 itself clamps numbers that are too large, and takes blanks and other bases: 010 would be 8.
template <class T>
static std::string refuse_other_than(const std::string& value) {
  T number;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, number);
  const size_t first = value.starts_with('-') ? 1 : 0;
  if (value.size() > first + 1 && value[first] == '0')
    return text("expected a whole number without zeros in front, got '", shortened(value), "'");
  if (error == std::errc() && end == last) return "";
  const bool has_digits = value.find_first_not_of("-0123456789") == std::string::npos;
  const std::string range =
      text(" from ", std::numeric_limits<T>::min(), " to ", std::numeric_limits<T>::max());
  return text("expected a whole number", has_digits ? range : "", ", got '", shortened(value), "'");
}

static bool is_whole_number(const CLI::Option& option) {
  return option.get_type_name() == "N" || option.get_type_name() == "K";
}

void expect_one_value_each(CLI::App& app) {
  const CLI::Validator not_empty(refuse_empty, "");
  const CLI::Validator whole(refuse_other_than<int64_t>, ""), seed(refuse_other_than<uint64_t>, "");
  for (CLI::Option* option : app.get_options()) {
    if (option->get_multi_option_policy() != CLI::MultiOptionPolicy::TakeAll)
      option->multi_option_policy(CLI::MultiOptionPolicy::Throw);
    if (!option->check_lname("prompt")) option->check(not_empty);
    if (is_whole_number(*option)) option->check(option->check_lname("seed") ? seed : whole);
  }
  for (CLI::App* sub : app.get_subcommands({})) expect_one_value_each(*sub);
}

void refuse_unknown(const CLI::App& app) {
  std::vector<std::string> rest = app.remaining();
  const auto mark = std::find(rest.begin(), rest.end(), "--");  // no options after it
  // An option is more telling than what may have been meant as its value.
  const auto at =
      std::find_if(rest.begin(), mark, [](const auto& a) { return a.starts_with("-"); });
  if (at == mark) {
    if (mark != rest.end()) rest.erase(mark);
    if (rest.empty()) return;
    std::vector<std::string> words;
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
      words.push_back(sub->get_name());
    if (!words.empty() && app.get_subcommands().empty())
      bad_input("'", rest[0], "' is not one of ", list_of(words), suggestion(rest[0], words));
    bad_input("'", rest[0], "' is one argument too many");
  }
  const std::string name = at->substr(0, at->find('='));
  bad_input("there is no option '", name, "'", suggestion(name, long_names(app)));
}

std::string sentence_of(const CLI::ParseError& error) {
  const std::string said = error.what();
  if (error.get_name() == "ValidationError") return said;
  const std::string conversion = "Could not convert: ", missing = " required ";
  if (said.starts_with(conversion)) {
    const size_t is = said.find(" = ");
    if (is != std::string::npos)
      return text(said.substr(conversion.size(), is - conversion.size()), ": '",
                  shortened(said.substr(is + 3)), "' is not a value that it can take");
  }
  const size_t colon = said.find(": "), received = said.find(" received ");
  if (colon != std::string::npos && received != std::string::npos)
    return text(said.substr(0, colon), " is given ", said.substr(received + 10),
                " times: expected once");
  if (colon != std::string::npos && said.find(missing) != std::string::npos)
    return said.substr(0, colon) + " needs a value";
  return said;
}

}  // namespace tete
