// Levels: a map's values in few bits, on a scale that is told beside it.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tools/inspect/report.hpp"

namespace tete {

// Value = origin + level * step, to half a step; `top` stands for what is not finite. In 16 bits
// the steps are decimal where they can be, so that what is read has the digits of the tensor; in 8
// they part low … high. Where a causal mask hides half of a map, that half is left out: row i has i
// + 1 columns.
struct Levels {
  double low = 0, high = 0;  // of what is seen; weights begin at 0
  double origin = 0, step = 0;
  std::optional<int> decimals = {};  // step = 10^-decimals
  int bits = 8;                      // or 16
  bool half = false;
  std::vector<uint16_t> levels = {};  // [heads, rows, columns]

  int top() const { return (1 << bits) - 1; }
};

Levels levels_of(const AttentionMap& map, bool causal, int bits);
// How many numbers levels_of gives.
Index level_count(const AttentionMap& map, bool causal);

// Both at once: a byte each, or two with the lower first.
std::string bytes_of(const Levels& levels);
std::string base64(std::string_view bytes);

}  // namespace tete
