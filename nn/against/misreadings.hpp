// A tensor whose dimensions are confused.
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

// A tensor as sentences call it: its name, and a name for each axis; the first `batch` are the
// batch's.
struct NamedAxes {
  std::string name;
  std::vector<std::string> axes;
  int batch = 0;
};

// Dimensions of one size in another order; numbers stored column by column; or laid out in one
// order of the dimensions and read in another, as if heads are split or merged the wrong way round.
std::vector<Misreading> confused_dimensions(const NamedAxes& named, const Shape& shape);

}  // namespace tete
