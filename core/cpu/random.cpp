// Random numbers and dropout: element i in row-major order has counter first + i, for any strides
// and on any thread.
#include <cmath>

#include "core/cpu/backend.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"
#include "core/philox.hpp"
#include "core/random.hpp"

namespace tete {

// The rows of rows_random.cpp are held to this.
PhiloxBlock philox(uint64_t key, uint64_t counter) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  PhiloxBlock c{{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  for (int round = 0; round < philox_round_count; ++round) {
    const uint64_t p0 = uint64_t{philox_factors[0]} * c.words[0],
                   p2 = uint64_t{philox_factors[1]} * c.words[2];
    c = {{static_cast<uint32_t>(p2 >> 32) ^ c.words[1] ^ k0, static_cast<uint32_t>(p2),
          static_cast<uint32_t>(p0 >> 32) ^ c.words[3] ^ k1, static_cast<uint32_t>(p0)}};
    k0 += philox_steps[0], k1 += philox_steps[1];
  }
  return c;
}

namespace cpu_kernels {
namespace {

constexpr double philox_cost = 12;

// The smallest number that a uniform T can take and that is at least `rate`: comparing with it
// is comparing with `rate` itself.
template <class T>
T threshold(double rate) {
  const double steps = sizeof(T) == 4 ? 0x1p24 : 0x1p53;
  return static_cast<T>(std::ceil(rate * steps) / steps);
}

}  // namespace

void CpuBackend::uniform(uint64_t key, uint64_t first, const View& y) {
  visit(y.dtype, [&]<class T>() {
    const auto loops = merge(loops_of<1>({&y}));  // in row-major order: it gives the counters
    const Index stride = loops.inner_stride(0);
    for_each_row(loops, philox_cost, [&](auto& at, Index n, Index position) {
      T* to = y.as<T>() + at[0];
      T block[256];
      for (Index start = 0; start < n; start += 256) {
        const Index count = std::min<Index>(256, n - start);
        rows<T>().uniform(key, first + static_cast<uint64_t>(position + start), block, count);
        for (Index i = 0; i < count; ++i) to[(start + i) * stride] = block[i];
      }
    });
  });
}

bool CpuBackend::dropout(const View& x, double rate, uint64_t key, uint64_t first, const View& y) {
  visit(y.dtype, [&]<class T>() {
    const auto loops = merge(loops_of<2>({&y, &x}));
    const T least = threshold<T>(rate), scale = static_cast<T>(1 / (1 - rate));
    for_each_row(loops, philox_cost, [&](auto& at, Index n, Index position) {
      rows<T>().dropout(x.as<T>() + at[1], loops.inner_stride(1), least, scale, key,
                        first + static_cast<uint64_t>(position), y.as<T>() + at[0],
                        loops.inner_stride(0), n);
    });
  });
  return true;
}

}  // namespace cpu_kernels
}  // namespace tete
