#include "tools/inspect/model_end.hpp"

#include <cmath>

#include "core/ops.hpp"

namespace tete {

namespace {

double largest_of(const std::vector<double>& numbers) {
  double most = 0;
  for (double x : numbers) most = std::max(most, std::abs(x));
  return most;
}

// s, where whole = s made as nearly as can be; 0 where nothing is made.
double scale_of(const double* whole, const double* made, size_t count) {
  double both = 0, squares = 0;
  for (size_t i = 0; i < count; ++i) both += whole[i] * made[i], squares += made[i] * made[i];
  return squares == 0 ? 0 : both / squares;
}

}  // namespace

ModelEnd::ModelEnd(const Trained& trained, int stream, const Tensor& z)
    : trained_(trained), stream_(stream), width_(z.size()) {
  for (const Tensor& value : trained.params) params_.push_back(cast(value.to(cpu()), Dtype::f64));
  const Tensor row = reshape(z, {1, width_});
  constants_ = end_of(row * 0.0).values();
  std::vector<double> whole = end_of(row).values();
  for (size_t i = 0; i < whole.size(); ++i) whole[i] -= constants_[i];
  const std::vector<double> made = linear(row).values();
  scale_ = scale_of(whole.data(), made.data(), made.size());
  if (scale_ == 0) return;
  std::vector<double> rest = whole;
  for (size_t i = 0; i < rest.size(); ++i) rest[i] -= scale_ * made[i];
  is_sum_ = largest_of(rest) <= 1e-6 * largest_of(whole);
}

// The logits [k, v] behind x[k, d_X], each a sequence of its own. What the model reads does not
// matter behind its stream.
Tensor ModelEnd::end_of(const Tensor& x) const {
  const Index k = x.size(0);
  const Tensor tokens = Tensor::zeros({k, 1}, Dtype::i64);
  ModelInputs inputs{.X = tokens};
  if (trained_.model.kind() == ModelKind::encoder_decoder)
    inputs.M = tokens, inputs.lengths = Tensor::ones({k}, Dtype::i64);
  const Tensor Y = trained_.model.logits_behind({.params = params_}, inputs, stream_,
                                                reshape(x, {k, 1, x.size(1)}));
  return reshape(Y, {k, Y.size(2)});
}

// The derivative at 0 along x, as that of its own transpose: <u, G x> = <x, Gᵀ u>.
Tensor ModelEnd::linear(const Tensor& x) const {
  const Tensor zero = (x * 0.0).variable(), Y = end_of(zero),
               u = Tensor::ones(Y.shape(), Dtype::f64).variable();
  const Tensors back = grad(Y, Tensors{zero}, {.cotangent = u, .keep_graph = true});
  return grad(sum(back[0] * x), Tensors{u})[0];
}

double ModelEnd::constant(int64_t token) const { return constants_[static_cast<size_t>(token)]; }

Tensor ModelEnd::direction(int64_t token) const {
  const Tensor zero = Tensor::zeros({1, width_}, Dtype::f64).variable(), Y = end_of(zero);
  const Tensor one = one_hot(Tensor::of<int64_t>({1}, {token}), Y.size(1), Dtype::f64);
  return reshape(grad(Y, Tensors{zero}, {.cotangent = one})[0], {width_}) * scale_;
}

Tensor ModelEnd::logits(const Tensor& x) const { return linear(x) * scale_; }

Tensor ModelEnd::logits(const Tensor& x, const Tensor& z) const {
  const Tensor constants = Tensor::of<double>({1, std::ssize(constants_)}, constants_),
               G_z = linear(z);
  const std::vector<double> whole = (end_of(z) - broadcast(constants, G_z.shape())).values(),
                            made = G_z.values();
  std::vector<double> scales;
  for (size_t i = 0; i < made.size(); i += constants_.size())
    scales.push_back(scale_of(&whole[i], &made[i], constants_.size()));
  const Index k = z.size(0);
  return linear(x) * broadcast(Tensor::of<double>({k, 1}, scales), G_z.shape());
}

}  // namespace tete
