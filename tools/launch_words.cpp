#include <algorithm>

#include "core/error.hpp"
#include "tools/launch.hpp"
#include "train/heartbeat.hpp"

namespace tete {

static std::string written(const std::vector<Host>& hosts) {
  std::string all;
  for (const Host& host : hosts) all += text(all.empty() ? "" : ",", host.name, ":", host.ranks);
  return all;
}

// A dead host is noticed after 2 + 3 s, not after eight minutes. Ranks share cores by themselves.
// When one is lost, the others have nothing to save: they are killed at once, not after 3 s.
static std::vector<std::string> open_mpi_words(const LaunchPlan& plan) {
  std::vector<std::string> words = {"mpirun", "-np", text(plan.ranks)};
  const auto add = [&](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (plan.root) add({"--allow-run-as-root"});
  if (!plan.hosts.empty()) add({"--host", written(plan.hosts)});
  add({"--bind-to", "none"});
  if (plan.hosts.empty() && plan.ranks > plan.cores)
    add({"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"});
  add({"--mca", "oob_tcp_keepalive_time", "2", "--mca", "oob_tcp_keepalive_intvl", "1", "--mca",
       "oob_tcp_keepalive_probes", "3", "--mca", "odls_base_sigkill_timeout", "0"});
  add({"-x", text(heartbeats_variable, "=", plan.heartbeats)});
  return words;
}

static std::vector<std::string> mpich_words(const LaunchPlan& plan) {
  std::vector<std::string> words = {"mpiexec.hydra", "-n", text(plan.ranks)};
  if (!plan.hosts.empty()) words.insert(words.end(), {"-hosts", written(plan.hosts)});
  words.insert(words.end(), {"-genv", heartbeats_variable, plan.heartbeats});
  return words;
}

std::vector<std::string> launch_words(const LaunchPlan& plan) {
  if (plan.library.starts_with("Open MPI")) return open_mpi_words(plan);
  if (plan.library.starts_with("MPICH")) return mpich_words(plan);
  bad_input("tete launch knows Open MPI and MPICH, but this program was built ",
            plan.library.empty() ? "without MPI (meson setup -Dmpi=enabled)"
                                 : "with " + plan.library.substr(0, 40));
}

// "[node01:1234] 1 more process has sent help message …", or "[node01][[47413,1],2][…" of a rank.
static bool names_a_process(const std::string& line) {
  if (!line.starts_with("[")) return false;
  const size_t end = line.find(']'), colon = line.rfind(':', end);
  if (end == std::string::npos) return false;
  const auto is_digit = [](unsigned char c) { return std::isdigit(c); };
  const bool numbered = colon != std::string::npos && colon + 1 < end &&
                        std::all_of(line.begin() + static_cast<std::ptrdiff_t>(colon) + 1,
                                    line.begin() + static_cast<std::ptrdiff_t>(end), is_digit);
  return numbered || line.compare(end, 3, "][[") == 0;
}

bool LauncherSpeech::is_for_people(const std::string& line) {
  // A rank that is killed may leave half a line before them.
  const bool dashes = line.ends_with(std::string(60, '-'));
  ends_ = ends_ || line.ends_with(std::string(60, '='));
  const bool shown = !dashes && !between_dashes_ && !ends_ && !names_a_process(line);
  if (dashes) between_dashes_ = !between_dashes_;
  else if (!shown) held_back_ += line + "\n";
  return shown;
}

std::string LauncherSpeech::node() const {
  const std::string before = "on node ";
  const size_t at = held_back_.rfind(before);
  if (at == std::string::npos) return "";
  const size_t begin = at + before.size();
  const std::string name =
      held_back_.substr(begin, held_back_.find_first_of(" \n,", begin) - begin);
  return name.ends_with('.') ? name.substr(0, name.size() - 1) : name;
}

// The part of `all` between `before` and any of `ends`; "" where `before` is not there.
static std::string between(const std::string& all, const std::string& before, const char* ends) {
  const size_t at = all.find(before);
  if (at == std::string::npos) return "";
  const size_t begin = at + before.size();
  return all.substr(begin, all.find_first_of(ends, begin) - begin);
}

LauncherSpeech::Killed LauncherSpeech::killed() const {
  const std::string signal = between(held_back_, "exited on signal ", ".\n");
  const std::string mpich = between(held_back_, "EXIT STRING: ", "\n");
  Killed killed;
  if (!signal.empty()) {
    std::istringstream(between(held_back_, "process rank ", " ")) >> killed.rank;
    killed.how = "signal " + signal;
  } else if (mpich.find("signal") != std::string::npos) {
    std::istringstream(between(held_back_, "PID ", " ")) >> killed.process;
    killed.how = mpich;
  }
  return killed;
}

std::string shell_line(const std::vector<std::string>& words) {
  const auto quoted = [](const std::string& word) {
    const auto plain = [](unsigned char c) {
      return std::isalnum(c) ||
             std::string_view("-_./=:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
    };
    if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
    std::string all = "'";
    for (char c : word) all += c == '\'' ? "'\\''" : std::string(1, c);
    return all + "'";
  };
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + quoted(word);
  return line;
}

}  // namespace tete
