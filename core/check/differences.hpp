// Slopes of a function along one of its inputs: central differences, Richardson-extrapolated,
//   D(h) = (f(x + h u) - f(x - h u)) / 2h,   (4 D(h/2) - D(h)) / 3,   wrong by O(h⁴).
// Rounding adds an error of about ε |f| / h.
#pragma once
#include <functional>
#include <vector>

#include "core/graph.hpp"

namespace tete {

// The elements of a tensor in row-major order: directions, weights, results.
using Numbers = std::vector<double>;
using Function = std::function<Tensor(const Tensors& inputs)>;

// The differences of one function at one point.
class Differences {
 public:
  // f gives a tensor of f64. The inputs must outlive this.
  Differences(Function f, const Tensors& inputs, double step);

  const Shape& shape() const { return shape_; }
  const Numbers& values() const { return values_; }
  // The slope of every element of the result as one input moves along `way`.
  Numbers slopes(size_t input, const Numbers& way) const;
  // The growth of Σ f · weights as the input goes from `from` to `to` times `way`.
  double rise(size_t input, const Numbers& way, const Numbers& weights, double from,
              double to) const;
  // The size of a rounding error in Σ f · weights.
  double rounding(const Numbers& weights) const;
  // The least size that an error of a slope of Σ f · weights is relative to. Rounding is at most
  // one part in ten million of it.
  double scale(const Numbers& weights) const;

 private:
  Tensor with(size_t input, const Tensor& moved) const;
  Numbers at(size_t input, const Numbers& way, double h) const;
  Numbers difference(size_t input, const Numbers& way, double h) const;

  Function f_;
  const Tensors& inputs_;
  double step_;
  Shape shape_;
  Numbers values_;
};

double dot(const Numbers& a, const Numbers& weights);  // numbers of weight 0 do not count
Numbers one_of(size_t count, size_t at);               // zeros, but 1 there

}  // namespace tete
