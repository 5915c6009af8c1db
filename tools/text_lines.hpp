// A text line by line, with what each line costs.
#pragma once
#include <string>
#include <vector>

#include "nn/cost.hpp"

namespace tete {

struct CostedLine {
  std::string code, comment;  // the comment with its #
  Formula formula = {};
  Index number = 0;
  std::vector<int> values = {};  // of the program that the line defines
  bool costs = false;            // it has a product or a parameter
};

// The lines of one of the program's sources.
std::vector<CostedLine> costed_lines(const Checked& program, const Source& source,
                                     const Cost& cost);

}  // namespace tete
