// The benchmarks: each declares its options on `app`, one a file.
#pragma once
#include "tools/options.hpp"

namespace tete {

Run bench_attention(CLI::App& app);
Run bench_ops(CLI::App& app);
Run bench_step(CLI::App& app);
Run bench_decode(CLI::App& app);
Run bench_optimizer(CLI::App& app);
Run bench_comm(CLI::App& app);

}  // namespace tete
