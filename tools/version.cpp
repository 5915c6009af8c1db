// The program's version: of the project, and its commit.
#include "tools/build_info.hpp"
#include "tools/options.hpp"

namespace tete {

std::string program_version() { return text("tete ", TETE_VERSION, " (", TETE_COMMIT, ")"); }

}  // namespace tete
