// The table of samples that tests and `tete check` walk: every operation of core/ops.hpp, on shapes
// with sizes 0, 1 and primes, and on every kind of view: strided, broadcast, permuted.
//
// An operation that is not in this table has not been checked.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace tete {

struct Sample {
  std::string name;                      // "softmax, masked"
  std::function<Tensors(Dtype)> inputs;  // the same numbers in either real type
  std::function<Tensor(const Tensors&)> apply;
  bool differentiable = true;  // false: difference quotients mean nothing
  double terms = 1;            // the most terms that one element is a sum of
};
const std::vector<Sample>& op_samples();

}  // namespace tete
