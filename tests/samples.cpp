// The table of samples, walked: every operation against central differences, in the other
// precision, on tensors that lie otherwise in memory, with NaN and infinity; every kernel against
// its meaning.
#include "core/samples.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "core/derivatives.hpp"
#include "core/gradcheck.hpp"
#include "core/ops.hpp"

using namespace tete;

namespace {

double largest(const Tensor& x) {
  double most = 0;
  for (double value : x.values<double>()) most = std::max(most, std::abs(value));
  return most;
}

// The largest difference of two tensors of one shape; NaN differs from everything.
double difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const auto x = a.values<double>(), y = b.values<double>();
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double apart = std::abs(x[i] - y[i]);
    most = std::isnan(apart) ? INFINITY : std::max(most, apart);
  }
  return most;
}

struct ValueAndGradients {
  Tensor value;
  Tensors gradients;
};

ValueAndGradients differentiate(const std::function<Tensor(const Tensors&)>& f,
                                const Tensors& inputs, bool keep_graph = false) {
  Tensors leaves, asked;
  for (const Tensor& in : inputs) {
    leaves.push_back(is_real(in.dtype()) ? in.variable() : in);
    if (is_real(in.dtype())) asked.push_back(leaves.back());
  }
  const Tensor y = f(leaves);
  if (!y.tracked()) return {y, {}};
  const Tensor cotangent = cast(random_normal(y.shape(), Key(3), Dtype::f32), y.dtype());
  return {y, grad(y, asked, {.cotangent = cotangent, .keep_graph = keep_graph})};
}

// A kernel against what it means, in value and gradient.
void agree(const std::function<Tensor(const Tensors&)>& kernel,
           const std::function<Tensor(const Tensors&)>& meaning, const Tensors& inputs) {
  const Dtype dtype = inputs[0].dtype();
  const auto fast = differentiate(kernel, inputs), slow = differentiate(meaning, inputs);
  CHECK(difference(fast.value, slow.value) <= tolerance(dtype, 1 + largest(slow.value)));
  REQUIRE(fast.gradients.size() == slow.gradients.size());
  for (size_t i = 0; i < fast.gradients.size(); ++i) {
    CAPTURE(i);
    const double size = 1 + largest(slow.gradients[i]);
    CHECK(difference(fast.gradients[i], slow.gradients[i]) <= tolerance(dtype, 8 * size));
  }
}

Tensor numbers(const Shape& shape, uint64_t seed, Dtype dtype) {
  return cast(random_uniform(shape, Key(seed), Dtype::f32) * 4.0 - 2.0, dtype);
}

// Σ over the last dimension, and its mean, in x's shape.
Tensor last_sum(const Tensor& x) { return broadcast(sum(x, {x.rank() - 1}, true), x.shape()); }
Tensor last_mean(const Tensor& x) { return last_sum(x) / static_cast<double>(x.shape().back()); }

}  // namespace

TEST_SUITE("samples") {
  TEST_CASE("every operation agrees with central differences, and so does its gradient") {
    for (const Sample& sample : op_samples()) {
      if (!sample.differentiable) continue;
      CAPTURE(sample.name);
      const GradReport report =
          check_gradient(sample.apply, sample.inputs(Dtype::f64), {.order = 2});
      CHECK(report.worst_of_order(1) <= 1e-6);
      CHECK(report.worst_of_order(2) <= 1e-5);
      for (const InputReport& input : report.inputs) {
        CAPTURE(input.input);
        CHECK_FALSE(input.severed);
      }
    }
  }

  TEST_CASE("float32 stays within its tolerance of float64, in value and gradient") {
    for (const Sample& sample : op_samples()) {
      CAPTURE(sample.name);
      const auto narrow = differentiate(sample.apply, sample.inputs(Dtype::f32));
      const auto wide = differentiate(sample.apply, sample.inputs(Dtype::f64));
      CHECK(narrow.value.dtype() == Dtype::f32);
      CHECK(wide.value.dtype() == Dtype::f64);
      const double size = 1 + largest(wide.value);
      CHECK(difference(narrow.value, wide.value) <= tolerance(Dtype::f32, size * sample.terms));
      REQUIRE(narrow.gradients.size() == wide.gradients.size());
      for (size_t i = 0; i < wide.gradients.size(); ++i) {
        CAPTURE(i);
        const double slope = 1 + largest(wide.gradients[i]);
        CHECK(difference(narrow.gradients[i], wide.gradients[i]) <=
              tolerance(Dtype::f32, 4 * size * slope * sample.terms));
      }
    }
  }

  TEST_CASE("a gradient that keeps its graph has the value of one that does not") {
    for (const Sample& sample : op_samples()) {
      CAPTURE(sample.name);
      const Tensors inputs = sample.inputs(Dtype::f64);
      const auto kernel = differentiate(sample.apply, inputs);
      const auto meaning = differentiate(sample.apply, inputs, true);
      REQUIRE(kernel.gradients.size() == meaning.gradients.size());
      for (size_t i = 0; i < kernel.gradients.size(); ++i) {
        const double size = sample.terms * (1 + largest(meaning.gradients[i]));
        CHECK(difference(kernel.gradients[i], meaning.gradients[i]) <=
              tolerance(Dtype::f64, 4 * size));
      }
    }
  }

  TEST_CASE("jvp is the transpose of the gradient, and hvp is symmetric, for every operation") {
    const auto inner = [](const Tensors& a, const Tensors& b) {
      double total = 0;
      for (size_t i = 0; i < a.size(); ++i)
        if (a[i]) total += sum(a[i] * b[i]).item();
      return total;
    };
    for (const Sample& sample : op_samples()) {
      if (!sample.differentiable) continue;
      CAPTURE(sample.name);
      Tensors inputs, xs, v, w;
      for (const Tensor& in : sample.inputs(Dtype::f64)) {
        inputs.push_back(is_real(in.dtype()) ? in.variable() : in);
        if (!is_real(in.dtype())) continue;
        xs.push_back(inputs.back());
        v.push_back(random_normal(in.shape(), Key(1).fold(xs.size()), Dtype::f64));
        w.push_back(random_normal(in.shape(), Key(2).fold(xs.size()), Dtype::f64));
      }
      const Tensor y = sample.apply(inputs);
      const Tensor c = random_normal(y.shape(), Key(3), Dtype::f64);
      const Tensors slopes =
          y.tracked() ? grad(y, xs, {.cotangent = c, .keep_graph = true}) : Tensors(xs.size());
      const double along = inner({jvp(y, xs, v)}, {c}), gradient = inner(slopes, v);
      CHECK(along == doctest::Approx(gradient).epsilon(1e-9).scale(sample.terms));
      const Tensor total = sum(y * c);
      const double vw = inner(hvp(total, xs, v), w), wv = inner(hvp(total, xs, w), v);
      CHECK(vw == doctest::Approx(wv).epsilon(1e-9).scale(sample.terms));
    }
  }

  TEST_CASE("fused kernels are what they mean") {
    for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
      CAPTURE(name_of(dtype));
      const Tensor x = numbers({3, 4, 37}, 1, dtype);
      const Tensor scale = numbers({37}, 2, dtype), bias = numbers({37}, 3, dtype);
      agree([](const Tensors& in) { return softmax(in[0], 2); },
            [](const Tensors& in) { return exp(in[0]) / last_sum(exp(in[0])); }, {x});
      agree([](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); },
            [](const Tensors& in) {
              const Tensor centred = in[0] - last_mean(in[0]);
              const Tensor y = centred / sqrt(last_mean(centred * centred) + norm_epsilon);
              return add("a b d, d", mul("a b d, d", y, in[1]), in[2]);
            },
            {x, scale, bias});
      agree([](const Tensors& in) { return rms_norm(in[0], in[1]); },
            [](const Tensors& in) {
              const Tensor y = in[0] / sqrt(last_mean(in[0] * in[0]) + norm_epsilon);
              return mul("a b d, d", y, in[1]);
            },
            {x, scale});
      const Tensor targets = Tensor::of<int64_t>({5}, {3, 0, 36, 3, 17});
      agree([&](const Tensors& in) { return cross_entropy(in[0], targets); },
            [&](const Tensors& in) {
              const Tensor p = exp(in[0]) / last_sum(exp(in[0]));
              return -log(sum("t [v]", p * one_hot(targets, 37, p.dtype())));
            },
            {numbers({5, 37}, 4, dtype)});
      const Key key = Key(5).fold("noise");
      agree([&](const Tensors& in) { return dropout(in[0], 0.25, key, 11); },
            [&](const Tensors& in) {
              std::vector<double> kept;
              for (Index i = 0; i < in[0].size(); ++i)
                kept.push_back(uniform(key, static_cast<uint64_t>(11 + i)) < 0.25 ? 0 : 1 / 0.75);
              return in[0] * cast(Tensor::of<double>(in[0].shape(), kept), in[0].dtype());
            },
            {x});
    }
  }

  TEST_CASE("a masked softmax is the softmax of what is visible") {
    for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const Tensor x = numbers({2, 5}, 6, dtype);
      const Tensor mask = Tensor::of<double>({2, 5}, {1, 0, 1, 1, 0, /**/ 0, 0, 0, 0, 0});
      const Tensor visible = cast(mask, dtype);
      agree([&](const Tensors& in) { return softmax(in[0], 1, mask); },
            [&](const Tensors& in) {
              const Tensor e = exp(in[0]) * visible;
              return e / (last_sum(e) +
                          cast(Tensor::of<double>({2, 5}, {0, 0, 0, 0, 0, 1, 1, 1, 1, 1}), dtype));
            },
            {x});
    }
  }

  TEST_CASE("no two samples have one name, so none stands in for another") {
    std::vector<std::string> names;
    for (const Sample& sample : op_samples()) names.push_back(sample.name);
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  }
}
