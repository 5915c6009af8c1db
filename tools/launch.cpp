// tete launch: a run on several processes, watched, and started again where one is lost.
#include "tools/launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <thread>

#include "tools/hosts.hpp"
#include "tools/train_options.hpp"
#include "train/heartbeat.hpp"
#include "train/ranks.hpp"

namespace tete {

namespace {

struct LaunchOptions {
  int ranks = 0, restarts = 0;
  std::string hosts;
  bool dry_run = false;
  std::vector<std::string> command;
};

// The facts of the run that are known before it starts.
struct Watched {
  std::string folder, heartbeats;
  std::vector<Host> hosts = {};
  double patience = 0;  // seconds without a sign of a rank
  bool resumes = false;
};

double wall_seconds() {
  struct timespec time = {};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Watched read_train_words(const std::vector<std::string>& words) {
  CLI::App app("", "tete train");
  TrainOptions train;
  app.allow_extras();
  add_train_options(app, train);
  expect_one_value_each(app);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    bad_input(sentence_of(error));
  }
  refuse_unknown(app);
  Watched run;
  run.folder = run_folder(train, app);
  run.heartbeats = std::filesystem::absolute(run.folder).string() + "/heartbeats";
  const double deadline = train.peer_timeout > 0 ? train.peer_timeout : 60;
  run.patience = deadline + std::min(30.0, 2 * deadline);
  run.resumes = train.resume;
  return run;
}

int64_t newest_step(const std::string& folder) {
  const std::vector<int64_t> steps = saved_steps(folder);
  return steps.empty() ? -1 : steps[0];
}

void say(const std::string& sentence) {
  std::cerr << "tete launch: " + sentence + "\n" << std::flush;
}

// ---- One start ----

struct Started {
  pid_t pid = -1;
  File output, speech;  // what it says on standard output and on standard error
};

struct Pipe {
  File reading, writing;
};
Pipe new_pipe() {
  int ends[2] = {};
  if (pipe2(ends, O_CLOEXEC) != 0) fail(ErrorKind::resource, "no pipe: ", errno_text(errno));
  return {File(ends[0]), File(ends[1])};
}

// In a group of its own, as a Ctrl-C of the terminal is for this process alone. It is killed if
// this process is, so that no run goes on unwatched.
Started started(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  Pipe output = new_pipe(), speech = new_pipe(), failure = new_pipe();
  const pid_t here = getpid(), pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != here) _exit(1);
    dup2(output.writing.descriptor(), STDOUT_FILENO);
    dup2(speech.writing.descriptor(), STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    const int code = errno;
    (void)!write(failure.writing.descriptor(), &code, sizeof code);
    _exit(1);
  }
  int code = pid < 0 ? errno : 0;
  failure.writing = File();
  if (code != 0 || read(failure.reading.descriptor(), &code, sizeof code) > 0)
    fail(ErrorKind::resource, "cannot start ", words[0], ": ", errno_text(code),
         "; install the Debian package openmpi-bin or mpich");
  return {pid, std::move(output.reading), std::move(speech.reading)};
}

struct Ended {
  int code = 0;
  bool asked = false;        // to stop
  std::vector<Beat> beats;   // at the end
  std::vector<Beat> silent;  // the rank that gave no sign shortly before
  bool hung = false;
  LauncherSpeech::Killed killed = {};     // as the launcher said it
  std::string node = {}, held_back = {};  // what else it said
};

// Passes on what is for people, until nobody can say more; or, as what a launcher leaves behind may
// hold the pipe, until it has ended and nothing comes.
void listen_to(const File& speech, const std::atomic<bool>& ended, LauncherSpeech& heard,
               std::ostream& to) {
  std::string rest;
  char bytes[4096];
  for (;;) {
    pollfd ready = {speech.descriptor(), POLLIN, 0};
    if (poll(&ready, 1, 100) == 0) {
      if (ended) break;
      continue;
    }
    const ssize_t count = read(speech.descriptor(), bytes, sizeof bytes);
    if (count <= 0) break;
    rest.append(bytes, static_cast<size_t>(count));
    for (size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1))
      if (heard.is_for_people(rest.substr(0, end))) to << rest.substr(0, end + 1) << std::flush;
  }
  to << rest << std::flush;
}

class Watch {
 public:
  Watch(const Watched& run, const Started& launcher)
      : run_(run),
        launcher_(launcher.pid),
        reader_([this, &launcher] { listen_to(launcher.output, ended_, read_, std::cout); }),
        listener_([this, &launcher] { listen_to(launcher.speech, ended_, heard_, std::cerr); }) {}

  Ended until_end() {
    Ended end;
    while (!has_ended(end.code)) {
      if (StopSignals::requested() && !end.asked) {
        ask_to_stop(run_.heartbeats);
        end.asked = true;
      }
      const std::vector<Beat> beats = read_beats(run_.heartbeats);
      if (!end.hung && silent(beats)) {
        end.hung = true;
        kill(-launcher_, SIGKILL);
      }
      // One that was frozen gives a sign when it is woken up to be killed.
      if (const Beat* first = first_to_end(beats)) end.silent = {*first}, seen_ = wall_seconds();
      else if (wall_seconds() - seen_ > 2) end.silent.clear();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    end.beats = read_beats(run_.heartbeats);
    ended_ = true;
    reader_.join();
    listener_.join();
    end.killed = heard_.killed().how.empty() ? read_.killed() : heard_.killed();
    end.node = heard_.node(), end.held_back = heard_.held_back();
    return end;
  }

 private:
  bool has_ended(int& code) const {
    int status = 0;
    if (waitpid(launcher_, &status, WNOHANG) != launcher_) return false;
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
  }
  bool silent(const std::vector<Beat>& beats) const {
    double oldest = wall_seconds();
    for (const Beat& beat : beats) oldest = std::min(oldest, beat.time);
    if (beats.empty()) oldest = began_;
    return wall_seconds() - oldest > run_.patience;
  }

  const Watched& run_;
  pid_t launcher_;
  double began_ = wall_seconds(), seen_ = 0;  // when a silent rank was
  LauncherSpeech read_, heard_;
  std::atomic<bool> ended_{false};
  std::thread reader_, listener_;
};

// ---- The verb ----

// The ranks that were lost: the one that the launcher says was killed, those of the machine that it
// says is gone, or the one that gave no sign for longest.
std::vector<Beat> lost_ranks(const Ended& end, const std::vector<Host>& hosts) {
  const auto is_lost = [&](const Beat& beat) {
    if (end.killed.rank >= 0) return beat.rank == end.killed.rank;
    if (end.killed.process >= 0) return beat.process == end.killed.process;
    return !end.node.empty() && host_of(beat.rank, hosts, "") == end.node;
  };
  std::vector<Beat> lost;
  std::copy_if(end.beats.begin(), end.beats.end(), std::back_inserter(lost), is_lost);
  return lost.empty() ? end.silent : lost;
}

std::string told(const Ended& end, const std::string& launcher, const std::vector<Host>& hosts) {
  const std::vector<Beat> lost = lost_ranks(end, hosts);
  const std::string how = end.hung ? launcher + " gave no sign and was killed"
                                   : text(end.killed.how, end.killed.how.empty() ? "" : "; ",
                                          launcher, " ended with ", end.code);
  if (lost.empty() && end.killed.rank >= 0)
    return text("rank ", end.killed.rank, " (", host_of(end.killed.rank, hosts, end.node),
                ") was lost at its start (", how, ")");
  if (lost.empty() && !end.node.empty())
    return text("a rank on ", end.node, " was lost (", how, ")");
  if (lost.empty()) return text("the run was lost (", how, ")");
  const auto name = [](const Beat& beat) { return text("rank ", beat.rank, " (", beat.host, ")"); };
  return text(list_of(lost, name, " and "), lost.size() == 1 ? " was" : " were",
              " lost after step ", lost[0].step, " (", how, ")");
}

// Codes that a rank chose are passed on; the rest says that one was lost.
bool is_lost(const Ended& end) {
  switch (end.hung ? 5 : end.code) {
    case 0:
    case 2:
    case 3:
    case 4:
    case 70:
      return false;
    default:
      return true;
  }
}

void clear_beats(const Watched& run) {
  std::error_code ignored;
  std::filesystem::remove_all(run.heartbeats, ignored);
}

// Starts the run, and again where it is lost.
int supervise(const LaunchOptions& o, const Watched& run, const std::vector<std::string>& launcher,
              const std::vector<std::string>& program) {
  int failures_without_progress = 0;
  for (int restart = 0;; ++restart) {
    clear_beats(run);
    make_folder(run.heartbeats);
    const int64_t before = newest_step(run.folder);
    std::vector<std::string> words = launcher;
    words.insert(words.end(), program.begin(), program.end());
    if (restart > 0 && !run.resumes && before >= 0) words.push_back("--resume");
    const Started launched = started(words);
    Ended end = Watch(run, launched).until_end();
    clear_beats(run);
    if (!is_lost(end)) return end.code;
    const int64_t saved = newest_step(run.folder);
    failures_without_progress = saved > before ? 0 : failures_without_progress + 1;
    std::vector<std::string> silent;
    if (end.node.empty() && lost_ranks(end, run.hosts).empty()) silent = silent_hosts(run.hosts, 1);
    if (!silent.empty()) end.node = silent[0];
    std::string what = told(end, launcher[0], run.hosts);
    if (!silent.empty()) what += "; no answer from " + list_of(silent);
    if (end.beats.empty() && end.killed.how.empty())  // it did not begin
      std::cerr << end.held_back << std::flush;
    const std::string from = saved < 0 ? "" : text("; step ", saved, " is saved");
    if (failures_without_progress >= 2) {
      say(what + "; two failures in a row without a new checkpoint: it is not tried again");
      return static_cast<int>(ErrorKind::peer);
    }
    if (restart >= o.restarts || end.asked)
      return say(what + from), static_cast<int>(ErrorKind::peer);
    say(text(what, from, "; restart ", restart + 1, " of ", o.restarts));
    std::this_thread::sleep_for(std::chrono::seconds(1 + failures_without_progress));
  }
}

int launch(const LaunchOptions& o) {
  if (o.command.empty() || o.command[0] != "train")
    bad_input("expected the command of a run behind --, as in tete launch -n 2 -- train book.txt");
  const std::vector<std::string> train_words(o.command.begin() + 1, o.command.end());
  Watched run = read_train_words(train_words);
  run.hosts = read_hosts(o.hosts);
  LaunchPlan plan{.library = mpi_library(), .ranks = o.ranks, .hosts = run.hosts};
  int slots = 0;
  for (const Host& host : plan.hosts) slots += host.ranks;
  if (plan.ranks == 0) plan.ranks = slots;
  if (plan.ranks == 0) bad_input("expected -n, the number of ranks, or --hosts");
  if (slots > 0 && plan.ranks > slots)
    bad_input("-n ", plan.ranks, ": expected at most the ranks of --hosts ", o.hosts, ", ", slots);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  plan.cores = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  plan.root = geteuid() == 0;
  plan.heartbeats = run.heartbeats;
  const std::vector<std::string> launcher = launch_words(plan);
  std::vector<std::string> program = {std::filesystem::read_symlink("/proc/self/exe").string()};
  program.insert(program.end(), o.command.begin(), o.command.end());
  if (o.dry_run) {
    std::vector<std::string> all = launcher;
    all.insert(all.end(), program.begin(), program.end());
    std::cout << shell_line(all) << "\n";
    return 0;
  }
  const StopSignals signals;
  return supervise(o, run, launcher, program);
}

}  // namespace

Run launch_verb(CLI::App& app) {
  auto o = std::make_shared<LaunchOptions>();
  add_whole(app, "-n,--ranks", o->ranks, 0, 1 << 20,
            "processes of the run (0: as many as --hosts says)");
  app.add_option("--hosts", o->hosts, "machines, each with its number of ranks: a,b:2")
      ->type_name("LIST");
  add_whole(app, "--restarts", o->restarts, 0, 1'000'000,
            "how often to go on from the last checkpoint after a rank was lost");
  app.add_flag("--dry-run", o->dry_run, "print the command, start nothing");
  take_words(app.add_option("COMMAND", o->command, "train and its options, behind --"));
  app.footer(
      "Ctrl-C, SIGTERM and SIGUSR1 let all ranks save at one step and stop.\n"
      "Examples:\n"
      "  tete launch -n 2 -- train book.txt --out runs/book\n"
      "  tete launch --hosts node1,node2 --restarts 3 -- train book.txt --out runs/book");
  return [o] { return launch(*o); };
}

}  // namespace tete
