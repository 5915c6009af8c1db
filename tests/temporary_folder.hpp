// A folder of a test's own, which goes with it.
#pragma once
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tete::tests {

struct TemporaryFolder {
  std::string path;

  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "tete-tests-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path); }

  std::string operator/(const std::string& name) const { return path + "/" + name; }
  // A file of this name with these bytes; its path.
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }
};

}  // namespace tete::tests
