// A verb that several processes run together.
#pragma once
#include <functional>
#include <string>

#include "train/comm.hpp"

namespace tete {

// Runs `work` as one of the ranks and returns the exit code. What fails on all of them is told by
// rank 0; a rank that fails alone tells it with its name, and ends the others.
int as_rank(Comm& comm, const std::string& speaker, const std::function<int()>& work);

}  // namespace tete
