// tete: attention variants as their papers print them. One verb a file; this one maps what goes
// wrong to exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <new>

#include "core/cpu/blas_kernel.hpp"
#include "core/cpu/rows.hpp"
#include "core/threads.hpp"
#include "tools/options.hpp"
#include "tools/start.hpp"

namespace tete {

struct Verb {
  const char* name;
  const char* what;
  Run (*declare)(CLI::App& app);
};

static const Verb verbs[] = {
    {"train", "Train a language model on text", train_verb},
    {"sample", "Write text with a trained model, as it is generated", sample_verb},
    {"check", "Check gradients of variants and operations in float64", check_verb},
    {"run", "Evaluate a variant on given tensors, every intermediate and gradient", run_verb},
    {"cost", "Count a variant's multiplies, parameters and memory", cost_verb},
    {"show", "Print a variant's text with its costs beside each line", show_verb},
    {"list", "List the attention variants, with their papers and parameters", list_verb},
    {"inspect", "Show what the heads of a trained model do with a text, as a page", inspect_verb},
    {"bench", "Time attention, operations, training steps and optimizers", bench_verb},
    {"einsum", "Compute one einsum on .npy files, or explain it", einsum_verb},
};

static const char* const exit_codes =
    "Exit codes: 0 fine, or stopped on request; 1 a check failed; 2 bad usage or bad\n"
    "input; 3 the numbers went wrong; 4 disk, memory or processor; 5 a peer was\n"
    "lost; 130 a second Ctrl-C.";

// What errors are about: "tete" or "tete VERB".
static std::string speaker = "tete";

// The verb that the words ask for; the rest of the command line is its own.
static int run(std::vector<std::string> words) {
  CLI::App app(
      "Tête: attention variants as their papers print them, trained, sampled and checked.\n",
      "tete");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("-V,--version", program_version());
  app.get_formatter()->column_width(12);
  app.footer(text("tete VERB --help tells more about one.\n\n", exit_codes));
  app.allow_extras();
  std::vector<std::string> names;
  std::vector<std::pair<CLI::App*, Run>> runs;
  for (const Verb& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.what);
    sub->allow_extras();
    names.push_back(verb.name);
    runs.emplace_back(sub, verb.declare(*sub));
  }
  // tete help VERB = tete VERB --help
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.push_back("--help");
  }
  if (words.empty())
    bad_input(
        "what is to be done? tete train, sample, check, run, cost, show, list, inspect, bench or "
        "einsum; "
        "tete --help tells more");
  if (!words[0].starts_with("-")) {
    if (std::find(names.begin(), names.end(), words[0]) == names.end())
      bad_input("there is no verb '", words[0], "'", suggestion(words[0], names));
    speaker += " " + words[0];
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    bad_input(sentence_of(error));
  }
  for (const auto& [sub, verb] : runs) {
    if (!sub->parsed()) continue;
    refuse_unknown(*sub);
    return verb();
  }
  refuse_unknown(app);
  return 0;
}

// A standard stream that is closed when the program starts would give its number to the first file
// that is opened, and what is said would be written there. Opened for the wrong direction, it takes
// and gives nothing, as a closed one.
static void occupy_closed_streams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 &&
        open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream)
      _exit(static_cast<int>(Kind::resource));
}

// Writes what is left; a standard output that takes no more is a failure like any other.
static void flush_output() {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0)
    fail(Kind::resource, "standard output could not be written");
}

}  // namespace tete

int main(int argc, char** argv) {
  tete::occupy_closed_streams();
  tete::libraries_have_started();
  tete::flush_denormals(true);
  try {
    tete::cpu_kernels::choose_blas_kernel();
    tete::cpu_kernels::rows<float>();  // told now, if there are none for this processor
    const int code = tete::run({argv + 1, argv + argc});
    tete::flush_output();
    return code;
  } catch (const tete::Error& error) {
    std::cerr << tete::speaker << ": " << error.what() << std::endl;
    return static_cast<int>(error.kind());
  } catch (const std::bad_alloc&) {
    std::cerr << tete::speaker << ": there is not enough memory" << std::endl;
    return static_cast<int>(tete::Kind::resource);
  } catch (const std::exception& error) {
    std::cerr << tete::speaker << ": a defect of the program: " << error.what() << std::endl;
    return 70;
  }
}
