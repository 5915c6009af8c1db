// A build without MPI.
#include "train/ranks.hpp"

namespace tete {

std::unique_ptr<Transport> mpi_transport(int) { return nullptr; }
bool built_with_mpi() { return false; }
std::string mpi_library() { return ""; }

}  // namespace tete
