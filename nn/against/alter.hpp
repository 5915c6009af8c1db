// Texts that differ from a text by one usual mistake.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "nn/language/check.hpp"

namespace tete {

struct Alteration {
  std::string sentence;  // "as if softmax went over n, not over m"
  std::shared_ptr<const Checked> program;
};

// The programs in which one function or operation of a statement is another, is left out or is
// repeated. A call of rotate or bucket is altered wherever the program has one, because a mistake
// in it is usually made for queries and keys alike.
std::vector<Alteration> alterations(const Checked& program, int statement);

}  // namespace tete
