// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011).
// Ten rounds of multiply and exchange turn (key, counter) into four random words. No state: any
// block can be computed at once, anywhere.
//
// `static`: kernels compiled for one instruction set must not lend their copy to the others.
#pragma once
#include <cstdint>

namespace tete {

// words[w][i] is word w of the block of counter words (low, high, 0, 0) of counter first + i and
// key words (low, high). Several blocks at once make vector code.
template <int blocks>
static inline void philox_words(uint64_t key, uint64_t first, uint32_t (&words)[4][blocks]) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  auto& [c0, c1, c2, c3] = words;
  for (int i = 0; i < blocks; ++i) {
    const uint64_t counter = first + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(counter), c1[i] = static_cast<uint32_t>(counter >> 32);
    c2[i] = c3[i] = 0;
  }
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < blocks; ++i) {
      const uint32_t low0 = 0xD2511F53 * c0[i], low2 = 0xCD9E8D57 * c2[i];
      const uint32_t high0 = static_cast<uint32_t>((uint64_t{0xD2511F53} * c0[i]) >> 32);
      const uint32_t high2 = static_cast<uint32_t>((uint64_t{0xCD9E8D57} * c2[i]) >> 32);
      c0[i] = high2 ^ c1[i] ^ k0;
      c1[i] = low2;
      c2[i] = high0 ^ c3[i] ^ k1;
      c3[i] = low0;
    }
    k0 += 0x9E3779B9;  // the golden ratio
    k1 += 0xBB67AE85;  // √3 - 1
  }
}

// The number in [0, 1) of a block: 53 bits for f64; f32 takes the first 24 of them.
static inline float philox_float(uint32_t word0) {
  return static_cast<float>(static_cast<int32_t>(word0 >> 8)) * 0x1p-24f;
}
static inline double philox_double(uint32_t word0, uint32_t word1) {
  const uint64_t bits = uint64_t{word0} << 32 | word1;
  return static_cast<double>(static_cast<int64_t>(bits >> 11)) * 0x1p-53;
}

}  // namespace tete
