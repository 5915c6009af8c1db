// An optimizer that is divided among ranks, so that each has only a part of its state (as ZeRO has
// it, Rajbhandari, Rasley, Ruwase, He 2020).
//
// Rank r of P keeps the state of its parts of all buckets (train/division.hpp), updates these
// numbers, and sends their new values to the others: (P-1)/P times 4N bytes.
#pragma once
#include "train/comm.hpp"
#include "train/optimizer.hpp"

namespace tete {

// `make` gives the optimizer of some tensors. What it does to a number has to follow from its
// value, gradient and state alone, as with Adam: then the bits are those of one that is whole. A
// part keeps whether it is of a matrix: its shape is [1, n], or [n].
std::unique_ptr<Optimizer> divided_optimizer(
    Comm& comm, const std::vector<ParamSpec>& specs,
    const std::function<std::unique_ptr<Optimizer>(const std::vector<ParamSpec>& parts)>& make);

}  // namespace tete
