#include <algorithm>

#include "core/error.hpp"
#include "tools/launch.hpp"
#include "train/heartbeat.hpp"

namespace tete {

std::vector<Host> read_hosts(const std::string& list) {
  std::vector<Host> hosts;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    Host host{name};
    if (const size_t colon = name.rfind(':'); colon != std::string::npos) {
      const std::string digits = name.substr(colon + 1);
      host.name = name.substr(0, colon);
      const bool number =
          !digits.empty() && digits.size() < 7 &&
          std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
      host.ranks = number ? std::stoi(digits) : 0;
    }
    if (host.name.empty() || host.ranks < 1)
      bad_input("--hosts ", list, ": expected names with numbers of ranks, as in a,b:2, got '",
                name, "'");
    hosts.push_back(host);
  }
  return hosts;
}

static std::string written(const std::vector<Host>& hosts) {
  std::string all;
  for (const Host& host : hosts) all += text(all.empty() ? "" : ",", host.name, ":", host.ranks);
  return all;
}

// A dead host is noticed after 2 + 3 s, not after eight minutes. Ranks share cores by themselves.
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
       "oob_tcp_keepalive_probes", "3"});
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

bool LauncherSpeech::is_for_people(const std::string& line) {
  const bool dashes = line.size() > 60 && line.find_first_not_of('-') == std::string::npos;
  const bool shown = !dashes && !between_dashes_;
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

int LauncherSpeech::killed() const {
  const std::string before = "process rank ";
  const size_t at = held_back_.find(before);
  if (at == std::string::npos || held_back_.find("exited on signal", at) == std::string::npos)
    return -1;
  std::istringstream digits(held_back_.substr(at + before.size(), 10));
  int rank = -1;
  return digits >> rank ? rank : -1;
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
