// A number of Dtype::bf16: the upper half of a float.
#pragma once
#include <cstdint>

namespace tete {

struct Bf16 {
  uint16_t bits;
};

}  // namespace tete
