// tete bench: how long things take, beside what the machine can do.
#include "tools/bench/nouns.hpp"

namespace tete {

struct Noun {
  const char* name;
  const char* what;
  Run (*declare)(CLI::App& app);
};

static const Noun nouns[] = {
    {"attention", "One layer of attention, forward and gradient", bench_attention},
    {"step", "A step of training a model", bench_step},
    {"decode", "A token of a language model that reads on", bench_decode},
    {"optimizer", "An optimizer's part of a step", bench_optimizer},
    {"comm", "Messages between ranks, and what to expect of more", bench_comm},
    {"ops", "The operations that matter, one by one", bench_ops},
};

Run bench_verb(CLI::App& app) {
  app.require_subcommand(0, 1);
  std::vector<std::pair<CLI::App*, Run>> runs;
  for (const Noun& noun : nouns) {
    CLI::App* sub = app.add_subcommand(noun.name, noun.what);
    sub->allow_extras();
    runs.emplace_back(sub, noun.declare(*sub));
  }
  app.footer(
      "Times are medians of several turns, taken in turns with the machine's own rates:\n"
      "of the processor (peak), of products of large matrices by the BLAS (GEMM), and of\n"
      "memory. Turns beside which the processor was slow, as a core that others use is,\n"
      "are dropped.\n"
      "tete bench WHAT --help tells more about one.\n\n"
      "Examples:\n"
      "  tete bench attention --variant talking_heads --heads 24\n"
      "  tete bench step --attention talking_heads");
  return [runs] {
    for (const auto& [sub, run] : runs) {
      if (!sub->parsed()) continue;
      refuse_unknown(*sub);
      return run();
    }
    bad_input(
        "missing subcommand: expected attention, step, decode, optimizer, comm or ops, as in tete "
        "bench "
        "attention --help");
  };
}

}  // namespace tete
