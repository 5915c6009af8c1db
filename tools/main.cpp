// tete: attention variants as their papers print them. One file per subcommand; this one maps
// what goes wrong to exit codes.
#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>

#include "core/cpu/blas_kernel.hpp"
#include "core/cpu/rows.hpp"
#include "core/threads.hpp"
#include "tools/options.hpp"
#include "tools/start.hpp"
#include "train/ranks.hpp"

namespace tete {

struct Verb {
  const char* name;
  const char* what;
  Run (*declare)(CLI::App& app);
};

static const Verb verbs[] = {
    {"train", "Train a language model on text", train_verb},
    {"launch", "Train on several processes or machines, and watch over them", launch_verb},
    {"sample", "Write text with a trained model, as it is generated", sample_verb},
    {"check", "Check gradients of variants and operations in float64", check_verb},
    {"run", "Evaluate a variant on given tensors, every intermediate and gradient", run_verb},
    {"cost", "Count a variant's multiplies, parameters and memory", cost_verb},
    {"show", "Print a variant's text with its costs beside each line", show_verb},
    {"functions", "List the functions and initialisers of the notation", functions_verb},
    {"list", "List the attention variants, with their papers and parameters", list_verb},
    {"inspect", "Show what the heads of a trained model do with a text, as a page", inspect_verb},
    {"bench", "Time attention, operations, training steps and optimizers", bench_verb},
    {"devices", "List the devices of this machine", devices_verb},
    {"einsum", "Compute one einsum on .npy files, or explain it", einsum_verb},
};

static const char* const exit_codes =
    "Exit codes: 0 fine, or training stopped on request; 1 a check failed; 2 bad usage\n"
    "or bad input; 3 the numbers went wrong; 4 disk, memory or processor; 5 a peer was\n"
    "lost; 130 Ctrl-C, in training the second.";

// The beginning of errors: "tete" or "tete VERB".
static std::string speaker = "tete";

// A program, or one of its verbs, as CLI11 sees it.
static void prepare(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(12);
  app.allow_extras();
}

// Puts an empty word after "--prompt=", of which CLI11 would take the next word as the value. No
// other option takes an empty value, so "--name=" is an error.
static std::vector<std::string> with_empty_values(std::vector<std::string> words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (!words[i].starts_with("--") || words[i].find('=') != words[i].size() - 1) continue;
    words[i].pop_back();
    if (words[i] != "--prompt") bad_input(words[i], ": expected a value, got ''");
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(++i), "");
  }
  return words;
}

// True if --help or --version was asked for: nothing is left to do.
static bool parse(CLI::App& app, std::vector<std::string> words) {
  words = with_empty_values(std::move(words));
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& asked) {
    return app.exit(asked), true;
  } catch (const CLI::ParseError& error) {
    bad_input(sentence_of(error));
  }
  refuse_unknown(app);
  return false;
}

// Answers --help and --version without a verb.
static int run_without_verb(const std::vector<std::string>& words) {
  CLI::App app(
      "Tête: attention variants as their papers print them, trained, sampled and checked.\n",
      "tete");
  prepare(app);
  app.set_version_flag("-V,--version", program_version());
  app.footer(text("tete SUBCOMMAND --help shows its options.\n\n", exit_codes));
  for (const Verb& verb : verbs) app.add_subcommand(verb.name, verb.what);
  if (parse(app, words)) return 0;
  bad_input("the subcommand comes first, as in tete train --help; tete --help lists them");
}

static const Verb& find_verb(const std::string& name) {
  if (const Verb* verb = find_named(name, verbs)) return *verb;
  bad_input("unknown subcommand '", name, "'", suggestion(name, names_of_rows(verbs)));
}

// The verb that the words ask for; the rest of the command line is its own.
static int run(std::vector<std::string> words) {
  // tete help VERB = tete VERB --help
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.push_back("--help");
  }
  if (words.empty())
    bad_input(
        "missing subcommand: expected train, launch, sample, check, run, cost, show, functions, "
        "list, "
        "inspect, "
        "bench, devices or einsum, as in tete train --help");
  if (words[0].starts_with("-")) return run_without_verb(words);
  const Verb& verb = find_verb(words[0]);
  speaker += " " + words[0];
  words.erase(words.begin());
  // No option begins with an arrow, but an einsum does: "->".
  if (verb.name == std::string("einsum"))
    for (std::string& word : words)
      if (word.starts_with("->")) word.insert(0, " ");
  CLI::App app(verb.what, speaker);
  prepare(app);
  const Run go = verb.declare(app);
  expect_one_value_each(app);
  return parse(app, words) ? 0 : go();
}

// If a standard stream is closed at the start, the first file that is opened would get its number,
// and messages would be written into that file. So each is opened as a mere path, which, like a
// closed one, can be neither read nor written.
static void occupy_closed_streams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_PATH) != stream)
      _exit(static_cast<int>(ErrorKind::resource));
}

// OpenMP reads when it is loaded how long a thread without work stays awake (core/threads.cpp);
// what the user has set holds. Where the program cannot be started again, it goes on as it is; so
// also under a loader that was called by name, which is what /proc/self/exe is then.
static void restart_with_short_waits(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  if (getauxval(AT_BASE) == 0) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);
  setenv("KMP_BLOCKTIME", "0", 0);  // milliseconds; of clang's OpenMP
  execv("/proc/self/exe", argv);
}

// Writes what is left; a standard output that takes no more is a failure like any other.
static void flush_output() {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0)
    fail(ErrorKind::resource, "standard output could not be written");
}

}  // namespace tete

int main(int argc, char** argv) {
  tete::occupy_closed_streams();
  tete::leave_place();
  tete::restart_with_short_waits(argv);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is a write that fails
  tete::libraries_have_started();
  tete::flush_denormals(true);
  try {
    tete::cpu_kernels::choose_blas_kernel();
    tete::cpu_kernels::rows<float>();  // told now, if there are none for this processor
    const int code = tete::run({argv + 1, argv + argc});
    tete::flush_output();
    return code;
  } catch (const tete::Error& error) {
    // Rank 0 of a run has found the same, and tells it before a launcher may end it.
    if (tete::launched().rank > 0 && tete::speaker == "tete train") {
      sleep(1);
      return static_cast<int>(error.kind());
    }
    std::cerr << tete::speaker << ": " << error.what() << std::endl;
    return static_cast<int>(error.kind());
  } catch (const std::bad_alloc&) {
    std::cerr << tete::speaker << ": there is not enough memory" << std::endl;
    return static_cast<int>(tete::ErrorKind::resource);
  } catch (const std::exception& error) {
    std::cerr << tete::speaker << ": a defect of the program: " << error.what() << std::endl;
    return 70;
  }
}
