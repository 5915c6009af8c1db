// One target, as libFuzzer drives it. What it finds ends the program.
#include <cstdint>

#include "core/cpu/rows.hpp"
#include "core/threads.hpp"
#include "tests/fuzz/targets.hpp"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  tete::set_threads(1);
  // clang 14's address sanitizer lets 64-byte loads meet rows of its stack that are aligned to 32.
  tete::cpu_kernels::use_instruction_set("v3");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  static const tete::FuzzTarget& target = tete::fuzz_target(FUZZ_TARGET);
  target.run({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
