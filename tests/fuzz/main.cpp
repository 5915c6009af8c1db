// One target, as libFuzzer drives it. What it finds ends the program.
#include <cstdint>

#include "core/threads.hpp"
#include "tests/fuzz/targets.hpp"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  tete::set_threads(1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  static const tete::FuzzTarget& target = tete::fuzz_target(FUZZ_TARGET);
  target.run({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
