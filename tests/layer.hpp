// A variant as a layer with parameters of its own, and what tests of layers compare.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "attention/attention.hpp"

namespace tete::tests {

inline Tensor noise(const Shape& shape, uint64_t seed, Dtype dtype = Dtype::f64) {
  return random_normal(shape, Key(seed), dtype);
}

inline double difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.values(), y = b.values();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(x[i] - y[i]));
  return worst;
}

inline Tensor identity(Index size) { return one_hot(arange(size), size, Dtype::f64); }

// A variant with parameters of its own.
struct Layer {
  ParamList list;
  std::shared_ptr<const Checked> program;
  Attention attention;
  Tensors values;

  Layer(const std::string& name, const AttentionSizes& sizes, Dtype dtype = Dtype::f64,
        const std::vector<Program>& amendments = {})
      : program(load_attention(*find_variant(name).program, amendments)),
        attention({list, ""}, program, sizes),
        values(list.initial_values(Key(7), dtype)) {
    // Larger than they start, so that no softmax is flat.
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = noise(values[i].shape(), 100 + i, dtype) * 0.5;
  }
  Tensor operator()(const Tensor& X, const Tensor& M, const Mask& mask = {}) const {
    return attention(Forward{.params = values, .watch = {}}, "", X, M, mask);
  }
  Tensor& operator[](const std::string& name) {
    const int at = list.find(name);
    REQUIRE(at >= 0);
    return values[static_cast<size_t>(at)];
  }
  // Takes every parameter that `other` has under the same name.
  void take(Layer& other) {
    for (const ParamSpec& spec : list.specs())
      if (other.list.find(spec.name) >= 0) (*this)[spec.name] = other[spec.name];
  }
};

}  // namespace tete::tests
