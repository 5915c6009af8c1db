#include "tools/bench/peer.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/embedded.hpp"
#include "tools/table.hpp"
#include "train/json.hpp"
#include "train/machine.hpp"

namespace tete {

using nlohmann::ordered_json;

// ---- The process ----

// A new folder with the programs in it.
static std::string write_programs() {
  std::string folder = (std::filesystem::temp_directory_path() / "tete-peers-XXXXXX").string();
  if (!mkdtemp(folder.data()))
    fail(Kind::resource, "no folder for temporary files could be made in ", folder);
  for (const auto& [name, contents] : {std::pair{"turns.py", peer_turns()},
                                       std::pair{"torch_attention.py", peer_torch_attention()},
                                       std::pair{"torch_gpt.py", peer_torch_gpt()},
                                       std::pair{"jax_attention.py", peer_jax_attention()},
                                       std::pair{"jax_gpt.py", peer_jax_gpt()}})
    if (!(std::ofstream(folder + "/" + name) << contents << std::flush))
      fail(Kind::resource, folder, "/", name, " could not be written");
  return folder;
}

// In the child: becomes Python. What it prints is for us, what it complains about for a file. If
// memory ends, it is the one to go.
[[noreturn]] static void become(const std::vector<std::string>& words, int socket,
                                const std::string& complaints) {
  std::ofstream("/proc/self/oom_score_adj") << 1000 << std::flush;
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::FILE* const log = std::fopen(complaints.c_str(), "w");
  if (log) dup2(fileno(log), STDERR_FILENO);
  dup2(socket, STDIN_FILENO);
  dup2(socket, STDOUT_FILENO);
  execvp(argv[0], argv.data());
  _exit(127);
}

PeerProcess::PeerProcess(const std::string& python, const std::string& program,
                         const std::vector<std::string>& arguments)
    : python_(python) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    fail(Kind::resource, "no connection to ", python, " could be made");
  folder_ = write_programs();
  std::vector<std::string> words{python, folder_ + "/" + program + ".py"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  process_ = fork();
  if (process_ == 0) become(words, ends[1], folder_ + "/complaints");
  close(ends[1]);
  socket_ = ends[0];
}

PeerProcess::~PeerProcess() {
  if (socket_ >= 0) close(socket_);
  if (process_ > 0) {
    kill(process_, SIGKILL);  // it holds nothing but memory
    waitpid(process_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void PeerProcess::ask() {
  if (send(socket_, "\n", 1, MSG_NOSIGNAL) != 1) fail_ended();
}

bool PeerProcess::speaks_within(double milliseconds) const {
  pollfd line{socket_, POLLIN, 0};
  int ready;
  do ready = poll(&line, 1, static_cast<int>(std::ceil(milliseconds)));
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// Lines that are not ours are passed over.
ordered_json PeerProcess::answer(double patience) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point asked = Clock::now();
  const std::chrono::duration<double, std::milli> most = std::chrono::duration<double>(patience);
  for (;;) {
    for (size_t end; (end = unread_.find('\n')) != std::string::npos;) {
      const ordered_json said = json_or_null(unread_.substr(0, end));
      unread_.erase(0, end + 1);
      if (said.is_object()) return said;
    }
    const std::chrono::duration<double, std::milli> waited = Clock::now() - asked;
    if (waited >= most || !speaks_within((most - waited).count()))
      fail(Kind::resource, "it has not answered in ", patience, " seconds");
    char buffer[4096];
    const ssize_t got = read(socket_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail_ended();
    unread_.append(buffer, static_cast<size_t>(got));
  }
}

// A process that has hung up gets a second to end by itself, as it says why.
static int status_at_end(pid_t process) {
  int status = 0;
  for (int looks = 0; looks < 100; ++looks) {
    if (waitpid(process, &status, WNOHANG) != 0) return status;
    usleep(10'000);
  }
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  fail(Kind::resource, "it has closed its output without an answer");
}

void PeerProcess::fail_ended() {
  if (process_ < 0) fail(Kind::resource, "no process could be made for ", python_);
  const int status = status_at_end(std::exchange(process_, -1));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    bad_input("there is no Python at '", python_, "' (--python PATH)");
  std::ifstream complaints(folder_ + "/complaints");
  std::string last, line;
  while (std::getline(complaints, line))
    if (line.find_first_not_of(' ') != std::string::npos) last = line;
  if (WIFSIGNALED(status))
    last = text("signal ", WTERMSIG(status),
                WTERMSIG(status) == SIGKILL ? ", as when memory runs out" : "");
  fail(Kind::resource, "it ended without an answer: ", last);
}

// "torch" and "eager" of "torch-eager".
static std::pair<std::string, std::string> engine_and_way(const std::string& mode) {
  const size_t dash = mode.find('-');
  return {mode.substr(0, dash), mode.substr(dash + 1)};
}

static std::vector<std::string> in_mode(std::vector<std::string> arguments,
                                        const std::string& mode) {
  arguments.insert(arguments.end(), {"--mode", engine_and_way(mode).second});
  return arguments;
}

Peer::Peer(const PeerOptions& o, const std::string& mode, const std::string& program,
           std::vector<std::string> arguments)
    : process_(o.python, engine_and_way(mode).first + "_" + program,
               in_mode(std::move(arguments), mode)),
      patience_(o.patience) {
  const ordered_json said = process_.answer(patience_);
  if (said.contains("refusal"))
    bad_input("--against ", engine_and_way(mode).first, ": ", o.python, ": ",
              said["refusal"].get<std::string>());
  engine_ = said.at("engine").get<std::string>();
}

double Peer::turn() {
  process_.ask();
  const ordered_json said = process_.answer(patience_);
  resident_mb_ = said.at("peak_rss_mb").get<double>();
  return said.at("seconds").get<double>();
}

// ---- Options ----

void add_peer_options(CLI::App& app, PeerOptions& o, const char* modes) {
  add_list(
      app, "--against", o.against,
      text("torch or jax: PyTorch or JAX, in turns with this program, in each of its modes; or "
           "one of ",
           modes))
      ->type_name("NAME");
  app.add_option("--python", o.python, "the Python that has PyTorch or JAX")
      ->type_name("PATH")
      ->capture_default_str();
  app.add_option("--patience", o.patience, "how long it may be silent, in seconds")
      ->type_name("S")
      ->capture_default_str();
}

std::vector<std::string> modes_of(const PeerOptions& o, const std::vector<std::string>& modes) {
  if (!(o.patience > 0 && o.patience <= 86400))
    bad_input("--patience ", o.patience, ": expected more than 0 and at most 86400 seconds");
  std::vector<std::string> names{"torch", "jax"}, chosen;
  names.insert(names.end(), modes.begin(), modes.end());
  for (const std::string& name : o.against) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      bad_input("--against ", name, ": there is no such mode here", choice(name, names));
    for (const std::string& mode : modes) {
      const auto [engine, way] = engine_and_way(mode);
      if (name == mode || (name == engine && way != "bf16")) chosen.push_back(mode);
    }
  }
  return chosen;
}

// ---- Measuring ----

// An engine is there within a minute, or not at all. A program that is no Python ends, is silent or
// says something else: its user has named the wrong one.
void check_peers(const PeerOptions& o, const std::vector<std::string>& modes,
                 const std::string& program, const std::vector<std::string>& arguments) {
  PeerOptions brief = o;
  brief.patience = std::min(o.patience, 60.0);
  std::string checked;
  for (const std::string& mode : modes) {
    const std::string engine = engine_and_way(mode).first;
    if (std::exchange(checked, engine) == engine) continue;
    try {
      const Peer peer(brief, engine + "-check", program, arguments);
    } catch (const Error& error) {
      if (error.kind() != Kind::resource) throw;
      bad_input("'", o.python, "' (--python) does not run the program for ", engine, ": ",
                error.what());
    }
  }
}

std::vector<Against> measure_against(const PeerOptions& o, const std::vector<std::string>& modes,
                                     const std::string& program,
                                     const std::vector<std::string>& arguments,
                                     const std::function<void()>& call, int repeats) {
  std::vector<Against> all;
  for (const std::string& mode : modes) {
    Against against{.mode = mode};
    try {
      Peer peer(o, mode, program, arguments);
      against.engine = peer.engine();
      const std::vector<Timing> timings =
          in_turns({turn_of(call), [&] { return peer.turn(); }}, repeats);
      against.ours = timings[0], against.theirs = timings[1];
      against.resident_mb = peer.resident_mb();
    } catch (const Error& error) {
      if (error.kind() != Kind::resource) throw;
      against.trouble = error.what();
    }
    all.push_back(std::move(against));
  }
  return all;
}

// ---- What is told ----

void print(const std::vector<Against>& all) {
  if (all.empty()) return;
  std::puts("");
  Table table(1);
  table.add({"in turns with", "theirs", "first quartile", "third", "ours", "theirs / ours",
             "of the least", "their process"});
  for (const Against& a : all) {
    const std::string name =
        a.engine.empty() ? a.mode : a.engine + " " + engine_and_way(a.mode).second;
    if (!a.trouble.empty()) {
      std::printf("%s: %s\n", name.c_str(), a.trouble.c_str());
      continue;
    }
    table.add({name, time_text(a.theirs.median()), time_text(a.theirs.quantile(0.25)),
               time_text(a.theirs.quantile(0.75)), time_text(a.ours.median()), digits(a.ratio()),
               digits(a.ratio_of_min()),
               size_text(static_cast<size_t>(a.resident_mb * (1 << 20)))});
  }
  table.print();
}

ordered_json to_json(const std::vector<Against>& all) {
  ordered_json json = ordered_json::array();
  for (const Against& a : all) {
    if (!a.trouble.empty()) {
      json.push_back({{"mode", a.mode}, {"trouble", a.trouble}});
      continue;
    }
    json.push_back({{"mode", a.mode},
                    {"engine", a.engine},
                    {"median_s", a.theirs.median()},
                    {"min_s", a.theirs.min()},
                    {"quartiles_s", {a.theirs.quantile(0.25), a.theirs.quantile(0.75)}},
                    {"peak_rss_mb", a.resident_mb},
                    {"our_median_s", a.ours.median()},
                    {"our_min_s", a.ours.min()},
                    {"ratio", a.ratio()},
                    {"ratio_of_min", a.ratio_of_min()}});
  }
  return json;
}

}  // namespace tete
