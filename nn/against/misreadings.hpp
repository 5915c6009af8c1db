// Mistakes that confuse the dimensions of a tensor.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace tete {

struct Misreading {
  std::string sentence;  // "as if P_l's h_k and h were swapped"
  std::function<Tensor(const Tensor&)> of;
};

// The names of a tensor and its axes, for sentences; the first `batch` axes are the batch's.
struct NamedAxes {
  std::string name;
  std::vector<std::string> axes;
  int batch = 0;
};

// Three mistakes: dimensions of one size in another order; numbers stored column by column; numbers
// written in one order of the dimensions and read in another, as when heads are split or merged the
// wrong way round.
std::vector<Misreading> confused_dimensions(const NamedAxes& named, const Shape& shape);

}  // namespace tete
