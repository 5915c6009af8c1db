// What a tensor becomes where its dimensions are confused.
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

// Two dimensions of one size swapped; or laid out in one order of its dimensions and read in
// another, as where heads are merged or split the wrong way round.
std::vector<Misreading> confused_dimensions(const NamedAxes& named, const Shape& shape);

// Zero at one index of an axis.
Misreading without_slice(const NamedAxes& named, const Shape& shape, int axis, Index at);

// The axis along which `x` is `y` with its slices in another order, if there is one: a sentence.
std::string permuted_slices(const NamedAxes& named, const Tensor& x, const Tensor& y,
                            double tolerance);

}  // namespace tete
