#include "train/ranks.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "train/files.hpp"

namespace tete {

// A number in the environment, or -1.
static int number_in_environment(const char* name) {
  const char* value = std::getenv(name);
  const std::string_view digits = value ? value : "";
  int number = -1;
  const auto [at, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return status == std::errc() && at == digits.data() + digits.size() ? number : -1;
}

// Open MPI's mpirun; MPICH's and Intel's mpiexec, and srun with PMI; srun with PMIx.
Launched launched() {
  static constexpr const char* names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                             {"PMI_RANK", "PMI_SIZE"},
                                             {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"}};
  for (const auto& [rank_name, size_name] : names) {
    const int rank = number_in_environment(rank_name), size = number_in_environment(size_name);
    if (rank >= 0 && size > rank) return {true, rank, size};
  }
  return {};
}

std::unique_ptr<Comm> join_ranks() {
  const Launched here = launched();
  if (here.size == 1) return std::make_unique<Comm>();
  if (!built_with_mpi())
    throw SharedError(ErrorKind::input, text("a launcher started ", here.size,
                                             " processes for one run, but this program was built "
                                             "without MPI (meson setup -Dmpi=enabled)"));
  ignore_write_signals();  // who sends to a rank that is gone is not the one that was lost
  return std::make_unique<Comm>([size = here.size] { return mpi_transport(size); });
}

int shards_for_ranks(int64_t batch) {
  int shards = 1;
  for (int more : {2, 4, 8, 24})
    if (more <= batch) shards = more;
  return shards;
}

}  // namespace tete
