// Normalisation over the last dimension.
//   layer_norm  y = scale · (x - μ)/√(σ² + ε) + bias, with the biased variance σ²
//   rms_norm    y = scale · x/√(mean x² + ε)
// (Ba, Kiros, Hinton 2016; Zhang, Sennrich 2019.)
#include "core/ops.hpp"

namespace tete {

namespace {

// The vector v[d] in the shape of x[…, d].
Tensor along_last(const Tensor& v, const Tensor& x) {
  Axes leading;
  for (int i = 0; i + 1 < x.rank(); ++i) leading.push_back(i);
  return expand(v, leading, x.shape());
}

Tensor layer_norm_meaning(const Tensors& in, double epsilon) {
  const Tensor &x = in[0], &scale = in[1], &bias = in[2];
  const Axes last{x.rank() - 1};
  const Tensor centred = x - broadcast(mean(x, last, true), x.shape());
  const Tensor r = rsqrt(mean(square(centred), last, true) + epsilon);
  return along_last(scale, x) * centred * broadcast(r, x.shape()) + along_last(bias, x);
}

Tensor rms_norm_meaning(const Tensors& in, double epsilon) {
  const Tensor &x = in[0], &scale = in[1];
  const Tensor r = rsqrt(mean(square(x), {x.rank() - 1}, true) + epsilon);
  return along_last(scale, x) * x * broadcast(r, x.shape());
}

// Memory for a norm of x: y, and two numbers of each row that the gradient needs.
FusedValue empty_norm(const Tensor& x) {
  Shape stats_shape = x.shape();
  stats_shape.back() = 2;
  return {Tensor::empty(x.shape(), x.dtype(), x.backend()),
          {Tensor::empty(stats_shape, x.dtype(), x.backend())}};
}

View bias_of(const Tensors& vectors, bool center) {
  return center ? vectors.back().view() : View{};
}

FusedValue norm_value(const Tensors& in, bool center, double epsilon) {
  const FusedValue made = empty_norm(in[0]);
  const bool done = in[0].backend().norm(in[0].view(), in[1].view(), bias_of(in, center), center,
                                         epsilon, made.y.view(), made.kept[0].view());
  return done ? made : FusedValue{};
}

Tensors norm_gradient(const Backward& at, bool center) {
  const auto empty = [&](const Tensor& in) {
    return Tensor::empty(in.shape(), in.dtype(), at.g.backend());
  };
  const Tensor dx = empty(at.in[0]), dscale = empty(at.in[1]),
               dbias = center ? empty(at.in[2]) : Tensor();
  at.g.backend().norm_gradient(at.in[0].view(), at.in[1].view(), at.g.view(), at.kept[0].view(),
                               center, dx.view(), dscale.view(), center ? dbias.view() : View{});
  return center ? Tensors{dx, dscale, dbias} : Tensors{dx, dscale};
}

void check(const char* op, const Tensor& x, const Tensor& v) {
  if (x.rank() < 1 || v.rank() != 1 || v.size(0) != x.size(x.rank() - 1) ||
      v.dtype() != x.dtype() || !is_real(x.dtype()))
    bad_input(op, ": expected x[…, d] and vectors [d] of its type, got ",
              describe(x.dtype(), x.shape()), " and ", describe(v.dtype(), v.shape()));
}

// vectors: scale and, for layer norm, bias.
Fused norm_op(const Tensor& x, const Tensors& vectors, double epsilon) {
  const bool center = vectors.size() == 2;
  const auto meaning = center ? layer_norm_meaning : rms_norm_meaning;
  const Fused op{center ? "layer_norm" : "rms_norm",
                 [=](const Tensors& in) { return norm_value(in, center, epsilon); },
                 [=](const Backward& at) { return norm_gradient(at, center); },
                 [=](const Tensors& in) { return meaning(in, epsilon); }, saves_inputs};
  for (const Tensor& v : vectors) check(op.name, x, v);
  return op;
}

Tensor norm_by(const Fused& op, const Tensor& x, Tensors vectors) {
  vectors.insert(vectors.begin(), x);
  return fused(op, std::move(vectors));
}

Tensor norm(const Tensor& x, const Tensors& vectors, double epsilon) {
  return norm_by(norm_op(x, vectors, epsilon), x, vectors);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& bias, double epsilon) {
  return norm(x, {scale, bias}, epsilon);
}
Tensor rms_norm(const Tensor& x, const Tensor& scale, double epsilon) {
  return norm(x, {scale}, epsilon);
}
SumWithNorm sum_with_norm(const Tensor& x, const Tensor& r, const Tensors& vectors,
                          double epsilon) {
  Fused op = norm_op(x, vectors, epsilon);
  Tensor sum;
  FusedValue made;
  const Tensor s = binary_by(Binary::add, x, r, [&](const Tensor& written) {
    sum = written, made = empty_norm(sum);
    const bool center = vectors.size() == 2;
    if (x.backend().add_norm(x.view(), r.view(), vectors[0].view(), bias_of(vectors, center),
                             center, epsilon, sum.view(), made.y.view(), made.kept[0].view()))
      return;
    made = {};
    x.backend().binary(Binary::add, x.view(), r.view(), sum.view());
  });
  // A RecordWatch may have put another tensor in its place.
  if (made.y && s.same(sum)) op.value = [made](const Tensors&) { return made; };
  return {s, [op, s, vectors] { return norm_by(op, s, vectors); }};
}

}  // namespace tete
