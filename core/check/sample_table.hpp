// The table of samples, the draws of its inputs, and memory layouts.
#pragma once
#include "core/check/samples.hpp"
#include "core/ops.hpp"

namespace tete {

// Numbers between low and high; or, where `below` is set, i64 positions below it.
struct Draw {
  Shape shape;
  double low = -2, high = 2;
  uint64_t below = 0;
};
inline Draw positions(const Shape& shape, uint64_t below) { return {shape, 0, 0, below}; }

// Rounded to f32, so that both types hold the same numbers.
inline Tensor drawn(const Draw& draw, Key key, Dtype dtype) {
  const Index count = element_count(draw.shape);
  if (draw.below > 0) {
    std::vector<int64_t> values;
    for (Index i = 0; i < count; ++i)
      values.push_back(
          static_cast<int64_t>(uniform_below(key, static_cast<uint64_t>(i), draw.below)));
    return Tensor::of<int64_t>(draw.shape, values);
  }
  std::vector<float> values;
  for (Index i = 0; i < count; ++i)
    values.push_back(static_cast<float>(draw.low + (draw.high - draw.low) *
                                                       uniform(key, static_cast<uint64_t>(i))));
  return cast(Tensor::of<float>(draw.shape, values), dtype);
}

using In = const Tensors&;
using Apply = std::function<Tensor(In in)>;

class SampleTable {
 public:
  // `terms`: the most terms that one element is a sum of.
  void add(const std::string& name, const std::vector<Draw>& draws, double terms, Apply apply) {
    const auto inputs = [name, draws](Dtype dtype) {
      Tensors all;
      for (size_t i = 0; i < draws.size(); ++i)
        all.push_back(drawn(draws[i], Key(1).fold(name).fold(i), dtype));
      return all;
    };
    samples.push_back({name, inputs, std::move(apply), true, terms});
  }
  void add(const std::string& name, const std::vector<Draw>& draws, Apply apply) {
    add(name, draws, 1, std::move(apply));
  }

  std::vector<Sample> samples;
};

// A memory layout: the shape that is stored, and the view of it that an operation gets.
struct Layout {
  const char* name;
  Shape stored;
  Tensor (*view)(const Tensor& stored);
};

inline Tensor as_it_is(const Tensor& x) { return x; }

inline const Layout layouts[] = {
    {"[]", {}, as_it_is},
    {"[0, 3]", {0, 3}, as_it_is},
    {"[7]", {7}, as_it_is},
    {"[3, 1, 5]", {3, 1, 5}, as_it_is},
    {"[5, 3] transposed",
     {3, 5},
     [](const Tensor& x) {
       return permute(x, {1, 0});
     }},
    {"[3, 5] every other row", {7, 5}, [](const Tensor& x) { return slice(x, 0, 1, 3, 2); }},
    {"[5, 3] every other column", {5, 7}, [](const Tensor& x) { return slice(x, 1, 0, 3, 2); }},
    {"[5, 3] repeated",
     {1, 3},
     [](const Tensor& x) {
       return broadcast(x, {5, 3});
     }},
};

// Softmax, attention, norms and losses (samples_softmax.cpp).
void add_softmax_samples(SampleTable& table);
// Layouts, copies and indices (samples_layout.cpp).
void add_layout_samples(SampleTable& table);

}  // namespace tete
