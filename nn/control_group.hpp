// Reads the limits that the system sets this process from the files of its control groups.
#pragma once
#include <string>
#include <vector>

namespace tete {

// The folders of this process's control group for a controller ("cpu", "memory"), innermost first;
// version 2 has one tree for all.
std::vector<std::string> control_groups(const std::string& controller);
// The first line of a file, or "".
std::string first_line(const std::string& path);
// The number that a file begins with, or 0.
double number_in(const std::string& path);

}  // namespace tete
