#include "train/heartbeat.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "train/loop.hpp"

namespace tete {

static constexpr auto beat_interval = std::chrono::milliseconds(200);
static constexpr const char* beat_name = "rank-";
static constexpr const char* stop_name = "stop";

static void beat(const std::string& folder, const Comm& comm) {
  const std::string path = text(folder, "/", beat_name, comm.rank());
  const std::string line =
      text(comm.rank(), " ", comm.host(comm.rank()), " ", comm.step(), " ", getpid(), "\n");
  const File file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (file) (void)!pwrite(file.descriptor(), line.data(), line.size(), 0);
}

Heartbeat::Heartbeat(const Comm& comm) {
  const char* folder = std::getenv(heartbeats_variable);
  if (!folder) return;
  thread_ = std::thread([this, folder = std::string(folder), &comm] {
    while (!ending_) {
      beat(folder, comm);
      if (access((folder + "/" + stop_name).c_str(), F_OK) == 0) StopSignals::request();
      std::this_thread::sleep_for(beat_interval);
    }
  });
}

Heartbeat::~Heartbeat() {
  ending_ = true;
  if (thread_.joinable()) thread_.join();
}

std::vector<Beat> read_beats(const std::string& folder) {
  std::vector<Beat> beats;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (!entry.path().filename().string().starts_with(beat_name)) continue;
    struct stat status = {};
    Beat found;
    std::ifstream file(entry.path());
    if (stat(entry.path().c_str(), &status) != 0 || !(file >> found.rank >> found.host)) continue;
    file >> found.step >> found.process;
    found.time = static_cast<double>(status.st_mtim.tv_sec) +
                 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
    beats.push_back(found);
  }
  std::sort(beats.begin(), beats.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
  return beats;
}

const Beat* first_to_end(const std::vector<Beat>& beats) {
  if (beats.size() < 2) return nullptr;
  std::vector<const Beat*> by_time;
  for (const Beat& each : beats) by_time.push_back(&each);
  std::sort(by_time.begin(), by_time.end(),
            [](const Beat* a, const Beat* b) { return a->time < b->time; });
  return by_time[1]->time - by_time[0]->time >= 0.5 ? by_time[0] : nullptr;
}

void ask_to_stop(const std::string& folder) {
  File(open((folder + "/" + stop_name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
}

}  // namespace tete
