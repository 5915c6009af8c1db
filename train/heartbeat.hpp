// Signs of life: each rank of a launched run writes a small file again and again, so that the
// launcher sees who ended first, and can ask all to stop where its signals do not reach.
#pragma once
#include <string>
#include <thread>
#include <vector>

#include "train/comm.hpp"

namespace tete {

// The variable that names the folder; without it nothing is written.
inline constexpr const char* heartbeats_variable = "TETE_HEARTBEATS";

// Writes while it lives. Its thread is not the one that computes: only a process that is frozen or
// gone gives no sign.
class Heartbeat {
 public:
  explicit Heartbeat(const Comm& comm);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;

 private:
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

struct Beat {
  int rank = -1;
  std::string host = {};
  int64_t step = 0;
  int64_t process = 0;
  double time = 0;  // of the last sign, seconds, by the clock of the file system
};
// The newest sign of each rank that gave one, by their numbers.
std::vector<Beat> read_beats(const std::string& folder);
// The beat that ended before the others did, by half a second at least; nullptr: none.
const Beat* first_to_end(const std::vector<Beat>& beats);

// Asks the ranks to save and stop, as a signal does.
void ask_to_stop(const std::string& folder);

}  // namespace tete
