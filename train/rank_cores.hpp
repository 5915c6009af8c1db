// The cores that each rank of a run may use, and what is wrong with them.
#pragma once
#include <bitset>
#include <string>
#include <vector>

#include "train/comm.hpp"

namespace tete {

struct RankCores {
  char host[64] = {};
  std::bitset<1024> usable = {};  // of its host's cores, as the launcher bound it
  int of_host = 0;                // how many cores its host has
  int threads = 0;                // that it computes with; 0: its share of the usable ones
};
RankCores cores_here();

// The threads of a rank: its cores, divided among the ranks that may use them, too.
int share_of_cores(const std::vector<RankCores>& all, int rank);
// A sentence where ranks share too few cores, or were bound to one though their host has more.
std::vector<std::string> core_warnings(const std::vector<RankCores>& all);

// Computes with this rank's share, unless `threads` says with how many; the warnings of all ranks.
std::vector<std::string> use_share_of_cores(Comm& comm, int threads);

}  // namespace tete
