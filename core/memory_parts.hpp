// Parts of a long memory, of which the kernels of attention take one at a time.
#pragma once
#include <algorithm>

#include "core/shape.hpp"

namespace tete {

// Returns how many parts of about 512 positions a memory has; up to 768 positions are one.
inline Index memory_parts(Index positions) {
  constexpr Index size = 512;
  return std::max<Index>(1, (positions + size / 2 - 1) / size);
}

}  // namespace tete
