#include "train/rank_cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "core/threads.hpp"
#include "train/machine.hpp"

namespace tete {

RankCores cores_here() {
  RankCores cores;
  gethostname(cores.host, sizeof cores.host - 1);
  cores.of_host = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  for (size_t i = 0; i < cores.usable.size() && i < CPU_SETSIZE; ++i)
    cores.usable[i] = CPU_ISSET(i, &set);
  return cores;
}

static bool overlap(const RankCores& a, const RankCores& b) {
  return std::string(a.host) == b.host && (a.usable & b.usable).any();
}

int share_of_cores(const std::vector<RankCores>& all, int rank) {
  const RankCores& mine = all[static_cast<size_t>(rank)];
  const auto sharing = std::count_if(all.begin(), all.end(),
                                     [&](const RankCores& other) { return overlap(mine, other); });
  return std::max(1,
                  static_cast<int>(mine.usable.count()) / std::max(1, static_cast<int>(sharing)));
}

// The ranks that share cores with this one, and with each other.
static std::vector<size_t> group_of(const std::vector<RankCores>& all, size_t rank) {
  std::vector<size_t> group;
  for (size_t r = 0; r < all.size(); ++r)
    if (overlap(all[rank], all[r])) group.push_back(r);
  return group;
}

std::vector<std::string> core_warnings(const std::vector<RankCores>& all) {
  std::vector<std::string> sentences;
  std::set<std::string> told;  // hosts
  for (size_t r = 0; r < all.size(); ++r) {
    if (told.contains(all[r].host)) continue;
    const std::vector<size_t> group = group_of(all, r);
    std::bitset<1024> cores;
    int64_t threads = 0;
    for (size_t each : group) {
      cores |= all[each].usable;
      threads += all[each].threads;
    }
    const auto count = static_cast<int64_t>(cores.count());
    const auto of_host = static_cast<size_t>(all[r].of_host);
    if (static_cast<int64_t>(group.size()) > count || threads > count)
      sentences.push_back(
          text("ranks ", list_of(group, std::identity(), " and "), " on ", all[r].host, " share ",
               counted(count, "core"), threads > count ? text(" with ", threads, " threads") : "",
               " and wait for each other; start fewer ranks there, or let the launcher bind them "
               "to cores of their own"));
    else if (all[r].usable.count() == 1 && of_host > 1 &&
             of_host >= 2 * static_cast<size_t>(
                                std::count_if(all.begin(), all.end(), [&](const RankCores& other) {
                                  return std::string(other.host) == all[r].host;
                                })))
      sentences.push_back(
          text("the launcher bound rank ", r, " to 1 of the ", of_host, " cores of ", all[r].host,
               ", so it computes with one thread; mpirun --bind-to none, or --map-by "
               "slot:PE=N, gives it more"));
    else continue;
    told.insert(all[r].host);
  }
  return sentences;
}

std::vector<std::string> use_share_of_cores(Comm& comm, int wanted) {
  if (comm.size() == 1) return {};
  RankCores mine = cores_here();
  const bool told = wanted > 0 || std::getenv("OMP_NUM_THREADS");
  if (told) mine.threads = threads();
  std::vector<RankCores> all = comm.all_gather(mine);
  for (int r = 0; r < comm.size(); ++r)
    if (int& each = all[static_cast<size_t>(r)].threads; each == 0) each = share_of_cores(all, r);
  set_threads(all[static_cast<size_t>(comm.rank())].threads);
  return core_warnings(all);
}

}  // namespace tete
