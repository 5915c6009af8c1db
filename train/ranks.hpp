// The processes that a launcher starts for one run (mpirun, mpiexec, srun), and how they find each
// other: by MPI, where the build has it. Without a launcher nothing of MPI is called.
#pragma once
#include <memory>

#include "train/comm.hpp"

namespace tete {

// The rank and the number of ranks that a launcher has put into the environment.
struct Launched {
  bool by_launcher = false;
  int rank = 0, size = 1;
};
Launched launched();

// This process among those that were started with it. Fails (input) if there are others, and the
// build has no MPI, or another one than the launcher's.
std::unique_ptr<Comm> join_ranks();

// Among MPI's processes; null in a build without MPI. Ranks are `size`, as the launcher says.
std::unique_ptr<Transport> mpi_transport(int size);
bool built_with_mpi();
// "Open MPI v4.1.4, …", "MPICH Version: 4.0.2 …"; "" in a build without MPI.
std::string mpi_library();

// How many shards a run has under a launcher, if nothing says it: the largest of 1, 2, 4, 8, 24
// that is at most the batch, whatever the number of ranks.
int shards_for_ranks(int64_t batch);

}  // namespace tete
