// tete check --against: somebody else's implementation, held against a text.
#pragma once
#include "tools/tensors.hpp"

namespace tete {

struct AgainstFile {
  std::string target;  // a variant or a text
  std::string path;    // of theirs, safetensors
  TextOptions text;
  double tolerance = 0;  // as AgainstOptions'
  bool json = false;
};

// Prints what agrees and where theirs first part from the text. Returns the exit code.
int check_against(const AgainstFile& o);

}  // namespace tete
