// A program of tools/peers/, run by Python beside this one: it takes turns on request.
#pragma once
#include <sys/types.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/bench/report.hpp"

namespace tete {

// --against, --python and --patience.
struct PeerOptions {
  std::vector<std::string> against;
  std::string python = "python3";
  double patience = 600;  // seconds
};
void add_peer_options(CLI::App& app, PeerOptions& o, const char* modes);

// A Python process with one of the programs, and a line to it. It ends with this object.
class PeerProcess {
 public:
  PeerProcess(const std::string& python, const std::string& program,
              const std::vector<std::string>& arguments);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;

  void ask();
  // The next object that it says. Fails (resource) where it ends instead or is silent for so many
  // seconds, (input) where there is no such Python.
  nlohmann::ordered_json answer(double patience);

 private:
  // False after so many milliseconds without a word.
  bool speaks_within(double milliseconds) const;
  [[noreturn]] void fail_ended();

  std::string python_, folder_, unread_ = {};
  int socket_ = -1;
  pid_t process_ = -1;
};

// A program that is ready to be timed.
class Peer {
 public:
  // mode is "torch-eager", "jax-jit" and so on, or an engine's "torch-check", which only asks
  // whether it can run; program is "attention" or "gpt", which has done its own warm-up. Fails
  // (input) where the engine is not there, and where the program knows no such arguments.
  Peer(const PeerOptions& o, const std::string& mode, const std::string& program,
       std::vector<std::string> arguments);

  // Seconds that one call of it took. Fails (resource) where it ends instead, or is silent.
  double turn();
  const std::string& engine() const { return engine_; }  // "torch 2.13.0"
  double resident_mb() const { return resident_mb_; }

 private:
  PeerProcess process_;
  double patience_;
  std::string engine_ = {};
  double resident_mb_ = 0;
};

// One peer's figures and ours, taken in turns.
struct Against {
  std::string mode, engine = {};  // "torch-eager", "torch 2.13.0"
  Timing theirs = {}, ours = {};
  double resident_mb = 0;
  std::string trouble = {};  // a sentence, where it gave none
  double ratio() const { return theirs.median() / ours.median(); }
  double ratio_of_min() const { return theirs.min() / ours.min(); }  // of the quietest turns
};

// The modes that --against names, of those that there are: "torch" is all of its modes but bf16,
// "torch-eager" one. Fails on any other name.
std::vector<std::string> modes_of(const PeerOptions& o, const std::vector<std::string>& modes);
// Fails where an engine of these modes cannot run the program with these arguments: before anything
// is measured.
void check_peers(const PeerOptions& o, const std::vector<std::string>& modes,
                 const std::string& program, const std::vector<std::string>& arguments);
// Each mode in turns with `call`.
std::vector<Against> measure_against(const PeerOptions& o, const std::vector<std::string>& modes,
                                     const std::string& program,
                                     const std::vector<std::string>& arguments,
                                     const std::function<void()>& call, int repeats);
void print(const std::vector<Against>& all);
nlohmann::ordered_json to_json(const std::vector<Against>& all);

}  // namespace tete
