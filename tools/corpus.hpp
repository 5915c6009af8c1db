// The text that `tete train` learns from when it is given none: the repository's own sources and
// documents, as they were when the program was built.
#pragma once
#include <string>
#include <string_view>

namespace tete {

std::string corpus();

}  // namespace tete
