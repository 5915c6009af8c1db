// Every file of tests/fuzz/corpus, which fuzzing has found interesting, is tried again.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/fuzz/targets.hpp"
#include "train/files.hpp"

using namespace tete;

TEST_SUITE("fuzz") {
  TEST_CASE("every kept input is taken or refused with a sentence") {
    for (const FuzzTarget& target : fuzz_targets()) {
      int count = 0;
      for (const auto& file :
           std::filesystem::directory_iterator(std::filesystem::path(FUZZ_CORPUS) / target.name)) {
        CAPTURE(file.path().string());
        CHECK_NOTHROW(target.run(read_file(file.path())));
        ++count;
      }
      CAPTURE(target.name);
      CHECK(count >= 20);
    }
  }

  // Every byte of a good file, left out, flipped or cut off there.
  TEST_CASE("damage to what is right is found out, wherever it is") {
    for (const FuzzTarget& target : fuzz_targets()) {
      const auto folder = std::filesystem::path(FUZZ_CORPUS) / target.name;
      const std::string whole = read_file(folder / "whole");
      for (size_t at = 0; at < std::min<size_t>(whole.size(), 2000); ++at) {
        CAPTURE(at);
        std::string flipped = whole, shorter = whole;
        flipped[at] = static_cast<char>(flipped[at] ^ 1);
        CHECK_NOTHROW(target.run(flipped));
        CHECK_NOTHROW(target.run(shorter.erase(at, 1)));
        CHECK_NOTHROW(target.run(whole.substr(0, at)));
      }
    }
  }
}
