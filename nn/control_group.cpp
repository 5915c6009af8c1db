#include "nn/control_group.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/error.hpp"

namespace tete {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

double number_in(const std::string& path) {
  const std::string line = first_line(path);
  char* end = nullptr;
  const double number = std::strtod(line.c_str(), &end);
  return end == line.c_str() ? 0 : number;
}

std::vector<std::string> control_groups(const std::string& controller) {
  std::vector<std::string> folders;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/a/b" or "0::/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = text(",", line.substr(first + 1, second - first - 1), ",");
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(text(",", controller, ",")) == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
    std::string path = line.substr(second + 1);
    for (;;) {
      folders.push_back(root + (path == "/" ? "" : path));
      const size_t slash = path.rfind('/');
      if (path.size() <= 1 || slash == std::string::npos) break;
      path.resize(std::max<size_t>(1, slash));
    }
  }
  return folders;
}

}  // namespace tete
