// The command that starts a run on several processes, by the MPI that the program was built with.
#pragma once
#include <string>
#include <vector>

namespace tete {

struct Host {
  std::string name;
  int ranks = 1;
};
// "a,b:2": one rank on a, two on b. Fails (input) where a count is none.
std::vector<Host> read_hosts(const std::string& list);

struct LaunchPlan {
  std::string library;  // as MPI tells it: "Open MPI v4.1.4, …", "MPICH Version: 4.0.2 …"
  int ranks = 1;
  std::vector<Host> hosts = {};  // none: this machine
  int cores = 1;                 // of this machine
  bool root = false;
  std::string heartbeats = {};
};
// The words before the program's own.
std::vector<std::string> launch_words(const LaunchPlan& plan);

// As one would type it.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace tete
