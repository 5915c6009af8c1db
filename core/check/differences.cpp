#include "core/check/differences.hpp"

#include <cmath>

namespace tete {

double dot(const Numbers& a, const Numbers& weights) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (weights[i] != 0) total += a[i] * weights[i];
  return total;
}

Numbers one_of(size_t count, size_t at) {
  Numbers all(count, 0.0);
  all[at] = 1;
  return all;
}

// Here as at every other point, f runs without a graph: a graph's values are part of the claim that
// differences check.
Differences::Differences(Function f, const Tensors& inputs, double step)
    : f_(std::move(f)), inputs_(inputs), step_(step) {
  const Tensor here = with(inputs.size(), {});
  shape_ = here.shape();
  values_ = here.values<double>();
}

Tensor Differences::with(size_t input, const Tensor& moved) const {
  Tensors inputs;
  for (const Tensor& in : inputs_) inputs.push_back(in ? in.detach() : in);
  if (moved) inputs[input] = moved;
  return f_(inputs);
}

Numbers Differences::at(size_t input, const Numbers& way, double h) const {
  if (h == 0) return values_;
  Numbers moved = inputs_[input].values<double>();
  for (size_t i = 0; i < way.size(); ++i) moved[i] += h * way[i];
  const Tensor y = with(input, Tensor::of<double>(inputs_[input].shape(), moved));
  if (!(y.shape() == shape_))
    bad_input("check_gradient: the function's result has shape ", y.shape(),
              " when an input moves a little, and ", shape_, " otherwise");
  return y.values<double>();
}

Numbers Differences::difference(size_t input, const Numbers& way, double h) const {
  Numbers above = at(input, way, h);
  const Numbers below = at(input, way, -h);
  for (size_t i = 0; i < above.size(); ++i) above[i] = (above[i] - below[i]) / (2 * h);
  return above;
}

Numbers Differences::slopes(size_t input, const Numbers& way) const {
  const Numbers wide = difference(input, way, step_), narrow = difference(input, way, step_ / 2);
  Numbers all(wide.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = (4 * narrow[i] - wide[i]) / 3;
  return all;
}

double Differences::rise(size_t input, const Numbers& way, const Numbers& weights, double from,
                         double to) const {
  Numbers grown = at(input, way, to);
  const Numbers start = at(input, way, from);
  for (size_t i = 0; i < grown.size(); ++i) grown[i] -= start[i];
  return dot(grown, weights);
}

double Differences::rounding(const Numbers& weights) const {
  double terms = 0;
  for (size_t i = 0; i < values_.size(); ++i) terms += std::fabs(values_[i] * weights[i]);
  return terms * epsilon(Dtype::f64);
}

double Differences::scale(const Numbers& weights) const {
  return std::max(1.0, 1e7 * rounding(weights) / step_);
}

}  // namespace tete
