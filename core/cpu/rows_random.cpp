// Rows of random numbers, and dropout by them. Each number is one of Philox's blocks; a register
// has several of them side by side.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/cpu/lanes.hpp"
#include "core/philox.hpp"

namespace tete::cpu_kernels::TETE_ISA {
namespace {

typedef uint64_t Words __attribute__((vector_size(register_bytes)));
inline constexpr int words = register_bytes / 8;

// The products of the lower halves of a's numbers and b.
TETE_INLINE Words products(Words a, uint32_t b) {
#if defined(__AVX512F__)
  // g++ 12 takes what _mm512_mul_epu32 leaves undefined for a mistake.
  return reinterpret_cast<Words>(
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), _mm512_set1_epi64(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Words>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), _mm256_set1_epi64x(b)));
#elif defined(__x86_64__)
  return reinterpret_cast<Words>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), _mm_set1_epi64x(b)));
#else
  return (a & 0xFFFFFFFFu) * b;
#endif
}

// The words of philox() of these counters in the lower halves of c; what is in the upper ones no
// round reads.
template <int R>
TETE_INLINE void philox_rounds(uint64_t key, uint64_t first, Words (&c)[4][R]) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int r = 0; r < R; ++r) {
    for (int i = 0; i < words; ++i) c[0][r][i] = first + static_cast<uint64_t>(r * words + i);
    c[1][r] = c[0][r] >> 32, c[2][r] = c[3][r] = Words{};
  }
  for (int round = 0; round < philox_round_count; ++round) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Words p0 = products(c[0][r], philox_factors[0]),
                  p2 = products(c[2][r], philox_factors[1]);
      c[0][r] = (p2 >> 32) ^ c[1][r] ^ k0, c[1][r] = p2;
      c[2][r] = (p0 >> 32) ^ c[3][r] ^ k1, c[3][r] = p0;
    }
    k0 += philox_steps[0], k1 += philox_steps[1];
  }
}

TETE_INLINE void number_of(uint32_t word0, uint32_t, float& y) { y = philox_float(word0); }
TETE_INLINE void number_of(uint32_t word0, uint32_t word1, double& y) {
  y = philox_double(word0, word1);
}

template <class T>
void uniform_row(uint64_t key, uint64_t first, T* __restrict y, Index n) {
  constexpr int registers = 4, blocks = registers * words;
  for (Index at = 0; at < n; at += blocks) {
    Words c[4][registers];
    philox_rounds(key, first + static_cast<uint64_t>(at), c);
    uint64_t word[2][blocks];
    __builtin_memcpy(word, c, sizeof word);
    T u[blocks];
    for (int i = 0; i < blocks; ++i)
      number_of(static_cast<uint32_t>(word[0][i]), static_cast<uint32_t>(word[1][i]), u[i]);
    const Index count = n - at < blocks ? n - at : blocks;
    for (Index i = 0; i < count; ++i) y[at + i] = u[i];
  }
}

template <class T>
void dropout_row(const T* x, Index sx, T rate, T scale, uint64_t key, uint64_t first,
                 T* __restrict y, Index sy, Index n) {
  constexpr Index block = 256;
  T u[block];
  for (Index at = 0; at < n; at += block) {
    const Index count = n - at < block ? n - at : block;
    uniform_row(key, first + static_cast<uint64_t>(at), u, count);
    const T* from = x + at * sx;
    T* to = y + at * sy;
    if (sx == 1 && sy == 1)
      for (Index i = 0; i < count; ++i) to[i] = u[i] >= rate ? from[i] * scale : T(0);
    else
      for (Index i = 0; i < count; ++i) to[i * sy] = u[i] >= rate ? from[i * sx] * scale : T(0);
  }
}

template <class T>
void fill(Rows<T>& rows) {
  rows.uniform = uniform_row<T>, rows.dropout = dropout_row<T>;
}

}  // namespace

void fill_random(Table& table) { fill(table.floats), fill(table.doubles); }

}  // namespace tete::cpu_kernels::TETE_ISA
