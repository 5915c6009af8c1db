// A variant as a layer with parameters of its own, and what tests of layers compare.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "attention/attention.hpp"

namespace tete::tests {

inline Tensor noise(const Shape& shape, uint64_t seed, Dtype dtype = Dtype::f64) {
  return random_normal(shape, Key(seed), dtype);
}

inline double difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.values(), y = b.values();
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double apart = std::abs(x[i] - y[i]);
    most = std::isnan(apart) ? INFINITY : std::max(most, apart);
  }
  return most;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.values(), y = b.values();
  if (x.size() != y.size()) return false;
  return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
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
    return values[at];
  }
  // Takes every parameter that `other` has under the same name.
  void take(Layer& other) {
    for (const ParamSpec& spec : list.specs())
      if (other.list.find(spec.name) >= 0) (*this)[spec.name] = other[spec.name];
  }
};

// Sizes that fit any variant, 12 wide: three heads, fewer or more of them where it has several
// kinds.
inline AttentionSizes sizes_for(const std::string& name) {
  AttentionSizes sizes{.d_model = 12, .dims = {}};
  const auto program = load_attention(name);
  if (program->find_dimension("h") >= 0) sizes.heads = 3;
  if (program->find_dimension("h_k") >= 0) sizes.dims = {{"h_k", 2}};
  if (program->find_dimension("h_v") >= 0) sizes.dims["h_v"] = 4;
  for (const char* room : {"max_n", "max_m"})
    if (program->find_dimension(room) >= 0) sizes.dims[room] = 16;
  return sizes;
}

// The memory that a variant is given: M, or X where it attends to itself only.
inline const Tensor& memory(const Layer& layer, const Tensor& X, const Tensor& M) {
  return layer.program->self_only ? X : M;
}

}  // namespace tete::tests
