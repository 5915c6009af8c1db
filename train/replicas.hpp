// The ranks' copies of parameters and of the optimizer's state, which are the same to the last bit.
#pragma once
#include "train/comm.hpp"
#include "train/optimizer.hpp"

namespace tete {

// Fails (numbers) on all ranks if checksums of the copies differ, and names the ranks that differ
// from most; from rank 0, where there is no majority. Of an optimizer that is divided there are no
// copies.
void check_replicas(Comm& comm, const Tensors& values, const Optimizer& optimizer, int64_t step);

}  // namespace tete
