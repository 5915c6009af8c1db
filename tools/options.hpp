// The verbs share this: their declaration, options that several have, and mistakes on the command
// line, each said in one sentence.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/ops.hpp"
#include "train/masked.hpp"
#include "train/task.hpp"

namespace tete {

// Runs a verb once its options have been read; returns the exit code.
using Run = std::function<int()>;

// One verb a file. Each declares its options on `app`.
Run train_verb(CLI::App& app);
Run launch_verb(CLI::App& app);
Run sample_verb(CLI::App& app);
Run check_verb(CLI::App& app);
Run cost_verb(CLI::App& app);
Run show_verb(CLI::App& app);
Run functions_verb(CLI::App& app);
Run list_verb(CLI::App& app);
Run run_verb(CLI::App& app);
Run inspect_verb(CLI::App& app);
Run devices_verb(CLI::App& app);
Run einsum_verb(CLI::App& app);
Run devices_verb(CLI::App& app);
Run bench_verb(CLI::App& app);

// Help that fits in 80 columns, in groups, with defaults.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_usage(const CLI::Option* option) const override;
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

// Refuses a number that is not within `low` and `high`; what is no number, others refuse.
template <class T>
CLI::Validator within(T low, T high) {
  const auto refuse = [=](const std::string& value) {
    T number;
    const bool is_number = CLI::detail::lexical_cast(value, number);
    return !is_number || (number >= low && number <= high)
               ? ""
               : text("expected ", low, " to ", high, ", got '", shortened(value), "'");
  };
  return CLI::Validator(refuse, "");
}
// A whole number within `low` and `high`, whose default the help shows.
template <class T>
CLI::Option* add_whole(CLI::App& app, const std::string& names, T& value, int64_t low, int64_t high,
                       const std::string& what) {
  return app.add_option(names, value, what)
      ->type_name("N")
      ->check(within(low, high))
      ->capture_default_str();
}

// --threads, and its effect.
CLI::Option* add_threads(CLI::App& app, int& threads);
void use_threads(int threads);  // 0: as many as there are usable cores

// --device: where tensors are and operations run, by a name of the registry (core/devices.hpp);
// and --strict-device.
struct DeviceOptions {
  std::string name = "cpu";
  bool strict = false;
};
void add_device(CLI::App& app, DeviceOptions& device);
// That device, while a verb uses it. Says at the end, on standard error, what the device lacked and
// the processor computed.
class DeviceInUse {
 public:
  explicit DeviceInUse(const DeviceOptions& o);
  ~DeviceInUse();
  DeviceInUse(const DeviceInUse&) = delete;
  Backend& operator*() const { return device_; }

 private:
  Backend& device_;
};

// --precision: f32 or bf16, of matrix products. Where the device cannot multiply bfloat16 by
// itself, products_of says so on stderr.
CLI::Option* add_precision(CLI::App& app, std::string& precision);
Products products_of(const std::string& precision, Backend& on);

// --recompute-blocks
CLI::Option* add_recompute_blocks(CLI::App& app, bool& recompute_blocks);

// An option that may be repeated and takes every value.
CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                      const std::string& what);

// The option takes every word that is no option, each as it stands.
CLI::Option* take_words(CLI::Option* option);

// "NAME: what; …", the rows of a table, for --help.
template <class Rows>
std::string help_of(const Rows& rows) {
  std::string all;
  for (const auto& row : rows) all += text(all.empty() ? "" : "; ", row.name, ": ", row.what);
  return all;
}

// The task that --task names; nullptr is "text" or "mlm", which learn from texts. Fails on a name
// that is none, with the nearest.
const Task* chosen_task(const std::string& name);
// "text: …; copy: …", for --help.
std::string task_help();

// After a file was written to `path`: if that is standard output, what the verb says from now on
// goes to standard error, so that the file stays whole.
void speak_beside(const std::string& path);

// Every option of the verb, and of the verbs below it, then fails when it is given twice, unless it
// is a list, on an empty value, unless that is a prompt, and on what is no whole number, or one
// that does not fit, where it takes one (its type is N or K).
void expect_one_value_each(CLI::App& app);
// Throws an Error for arguments that the verb does not know.
void refuse_unknown(const CLI::App& app);
// CLI11's complaint as one sentence.
std::string sentence_of(const CLI::ParseError& error);

// The program's name, version and commit.
std::string program_version();

}  // namespace tete
