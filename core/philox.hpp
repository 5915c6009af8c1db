// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011).
// Ten rounds of multiply and exchange turn (key, counter) into four random words. No state: any
// block can be computed at once, anywhere.
//
// `static`: kernels compiled for one instruction set must not lend their copy to the others.
#pragma once
#include <cstdint>

namespace tete {

// The block of counter words (low, high, 0, 0) and key words (low, high).
static inline void philox_words(uint64_t key, uint64_t counter, uint32_t words[4]) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = 0, c3 = 0;
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;  // the golden ratio
    k1 += 0xBB67AE85;  // √3 - 1
  }
  words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
}

// The number in [0, 1) that a block stands for: 24 bits for f32, 53 bits for f64.
static inline float philox_float(const uint32_t words[4]) {
  return static_cast<float>(static_cast<int32_t>(words[0] >> 8)) * 0x1p-24f;
}
static inline double philox_double(const uint32_t words[4]) {
  const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
  return static_cast<double>(static_cast<int64_t>(bits >> 11)) * 0x1p-53;
}

}  // namespace tete
