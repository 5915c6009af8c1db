// The bytes that a call makes on the way of a gradient, and those that are there after it.
#pragma once
#include "core/tensor.hpp"

namespace tete {

struct MadeAndKept {
  double made = 0, kept = 0;

  // `call` returns what the gradient will be taken of.
  template <class Call>
  explicit MadeAndKept(const Call& call) {
    const size_t before = memory_use().live;
    Tensors all;
    Tensor result;
    {
      const RecordWatch watch([&](const Tensor& each) { return all.push_back(each), each; });
      result = call();
    }
    made = static_cast<double>(memory_use().live - before);
    all.clear();
    kept = static_cast<double>(memory_use().live - before);
  }
};

}  // namespace tete
