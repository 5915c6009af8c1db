// What precision numbers have been computed in, as far as the numbers show.
#pragma once
#include <vector>

#include "core/tensor.hpp"

namespace tete {

struct Precision {
  const char* name;
  int bits;             // of the significand
  double smallest;      // positive number
  double unit() const;  // the largest relative rounding error
};

// The coarsest precision among the tensors: that of their type, or a shorter one if no number of a
// tensor needs more bits and many need them all (half precision stored as float32).
Precision precision_of(const std::vector<Tensor>& tensors);

}  // namespace tete
