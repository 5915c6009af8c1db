// Normalisation over the last dimension.
//   layer_norm  y = scale · (x - μ)/√(σ² + ε) + bias, with the biased variance σ²
//   rms_norm    y = scale · x/√(mean x² + ε)
// (spec D4: Ba, Kiros, Hinton 2016; Zhang, Sennrich 2019.)
#include "core/cpu/fused.hpp"
#include "core/ops.hpp"

namespace tete {

namespace {

// The vector v[d] in the shape of x[…, d].
Tensor along_last(const Tensor& v, const Tensor& x) {
  Axes leading;
  for (int i = 0; i + 1 < x.rank(); ++i) leading.push_back(i);
  return expand(v, leading, x.shape());
}

Tensor layer_norm_meaning(const Tensors& in) {
  const Tensor &x = in[0], &scale = in[1], &bias = in[2];
  const Axes last{x.rank() - 1};
  const Tensor centred = x - broadcast(mean(x, last, true), x.shape());
  const Tensor r = rsqrt(mean(square(centred), last, true) + norm_epsilon);
  return along_last(scale, x) * centred * broadcast(r, x.shape()) + along_last(bias, x);
}

Tensor rms_norm_meaning(const Tensors& in) {
  const Tensor &x = in[0], &scale = in[1];
  const Tensor r = rsqrt(mean(square(x), {x.rank() - 1}, true) + norm_epsilon);
  return along_last(scale, x) * x * broadcast(r, x.shape());
}

FusedValue norm_value(const Tensors& in, bool center) {
  Shape stats_shape = in[0].shape();
  stats_shape.back() = 2;
  const Tensor y = Tensor::empty(in[0].shape(), in[0].dtype());
  const Tensor stats = Tensor::empty(stats_shape, in[0].dtype());
  cpu_kernels::norm(in[0].view(), in[1].view(), center ? in[2].view() : View{}, center,
                    norm_epsilon, y.view(), stats.view());
  return {y, {stats}};
}

Tensors norm_gradient(const Backward& at, bool center) {
  const Tensor dx = Tensor::empty(at.in[0].shape(), at.in[0].dtype());
  const Tensor dscale = Tensor::empty(at.in[1].shape(), at.in[1].dtype());
  const Tensor dbias = center ? Tensor::empty(at.in[2].shape(), at.in[2].dtype()) : Tensor();
  cpu_kernels::norm_gradient(at.in[0].view(), at.in[1].view(), at.g.view(), at.kept[0].view(),
                             center, dx.view(), dscale.view(), center ? dbias.view() : View{});
  return center ? Tensors{dx, dscale, dbias} : Tensors{dx, dscale};
}

void check(const char* op, const Tensor& x, const Tensor& v) {
  if (x.rank() < 1 || v.rank() != 1 || v.size(0) != x.size(x.rank() - 1) ||
      v.dtype() != x.dtype() || !is_real(x.dtype()))
    bad_input(op, ": expected x[…, d] and vectors [d] of its type, got ",
              describe(x.dtype(), x.shape()), " and ", describe(v.dtype(), v.shape()));
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& bias) {
  check("layer_norm", x, scale);
  check("layer_norm", x, bias);
  const Fused op{"layer_norm", [](const Tensors& in) { return norm_value(in, true); },
                 [](const Backward& at) { return norm_gradient(at, true); }, layer_norm_meaning};
  return fused(op, {x, scale, bias});
}

Tensor rms_norm(const Tensor& x, const Tensor& scale) {
  check("rms_norm", x, scale);
  const Fused op{"rms_norm", [](const Tensors& in) { return norm_value(in, false); },
                 [](const Backward& at) { return norm_gradient(at, false); }, rms_norm_meaning};
  return fused(op, {x, scale});
}

}  // namespace tete
