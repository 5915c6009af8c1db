// The command that starts a run on several processes, by the MPI that the program was built with.
#pragma once
#include <string>
#include <vector>

#include "tools/hosts.hpp"

namespace tete {

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

// Tells what is for people in what a launcher and its ranks say on standard error from the
// launcher's own messages. Open MPI sets these between rows of dashes or begins with a process, as
// in [node01:1234]; those of MPICH begin with a row of equals signs, on standard output, and
// nothing follows them.
class LauncherSpeech {
 public:
  // True if people are to see the line.
  bool is_for_people(const std::string& line);
  // All that was held back, and the last machine that is named in it, as in "on node NAME"; or "".
  const std::string& held_back() const { return held_back_; }
  std::string node() const;
  // The rank or the process that was killed, and how. Open MPI: "process rank 1 with PID 7 on node
  // NAME exited on signal 9 (Killed)."; MPICH: "PID 7 RUNNING AT NAME" and, behind more, "EXIT
  // STRING: Killed (signal 9)".
  struct Killed {
    int rank = -1;
    int64_t process = -1;
    std::string how = {};
  };
  Killed killed() const;

 private:
  std::string held_back_;
  bool between_dashes_ = false, ends_ = false;
};

// As one would type it.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace tete
