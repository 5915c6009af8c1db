// The machine's peaks: the rates that every other time is held against.
#pragma once
#include <string>

#include "core/dtype.hpp"
#include "core/storage.hpp"
#include "tools/bench/measure.hpp"

namespace tete {

// A turn whose call is this much work: its rate is work over seconds.
struct Probe {
  Turn turn;
  double work;
  double rate(const Timing& timing) const { return work / timing.median(); }
};

inline constexpr long gemm_size = 1024;

// Products and sums that wait for nothing, in the widest vectors, by each thread: the processor's
// peak, in products and sums a second.
Probe peak_probe(Dtype dtype, int threads);
// Products of square matrices by the BLAS, each thread its own, with the kernel that fits the
// processor, whichever the program computes with: products and sums a second.
Probe gemm_probe(Dtype dtype, int threads);
// The kernel that gemm_probe measures, by the BLAS's name.
std::string gemm_kernel();
// y += a x over arrays that no cache holds, on all threads: bytes a second, two read for each that
// is written, as optimizers do.
Probe memory_probe();
// Σ x y over the same arrays: bytes a second that are read.
Probe read_probe();

// Copies on a device beside the processor, of 64 MiB, or of 4 MiB where it has little memory: bytes
// a second that are read and written.
Probe copy_probe(Backend& on);

}  // namespace tete
