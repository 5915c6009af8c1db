// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011).
// Ten rounds of multiply and exchange turn (key, counter) into four random words. No state: any
// block can be computed at once, anywhere.
//
// `static`: kernels compiled for one instruction set must not lend their copy to the others.
#pragma once
#include <cstdint>

namespace tete {

inline constexpr int philox_round_count = 10;
inline constexpr uint32_t philox_factors[2] = {0xD2511F53, 0xCD9E8D57};
inline constexpr uint32_t philox_steps[2] = {0x9E3779B9, 0xBB67AE85};  // golden ratio, √3 - 1

// The number in [0, 1) of a block: 53 bits for f64; f32 takes the first 24 of them.
static inline float philox_float(uint32_t word0) {
  return static_cast<float>(static_cast<int32_t>(word0 >> 8)) * 0x1p-24f;
}
static inline double philox_double(uint32_t word0, uint32_t word1) {
  const uint64_t bits = uint64_t{word0} << 32 | word1;
  return static_cast<double>(static_cast<int64_t>(bits >> 11)) * 0x1p-53;
}

}  // namespace tete
