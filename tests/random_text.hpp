// Attention texts made at random: grammatical, and right in their names more often than not. They
// are drawn from all functions of the notation, and many have a mask that is nearly right.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tete::tests {

// A text in parts, so that some can be left out. Sizes are written where something mentions them.
struct RandomText {
  struct Line {
    std::string name, left, right;  // "Z3", "Z3[n, m]", "softmax(…)"; of a parameter "normal(1)"
  };
  std::string memory;  // "M[m, d] = X[n, d]", or "" without a memory
  std::vector<Line> parameters, statements;
  std::vector<std::string> terms;                // Y is their sum
  std::string joined;                            // the size e of what is joined: "k + k"
  std::map<std::string, std::string> defs = {};  // that it calls, by name

  // The text, without the statements and parameters that Y does not depend on.
  std::string text() const;
};

// The same text for the same seed, everywhere.
RandomText random_text(uint64_t seed);

}  // namespace tete::tests
