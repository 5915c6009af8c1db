// The table of samples, walked: every operation against central differences, in the other
// precision, on tensors that lie otherwise in memory, with NaN and infinity; every kernel against
// its meaning; and what each leaves behind.
#include "core/check/samples.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "core/check/gradcheck.hpp"
#include "core/derivatives.hpp"
#include "core/ops.hpp"
#include "core/threads.hpp"

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

// Value and gradients of a sample, otherwise computed, are as close as two right ways must be.
void check_same(const Sample& sample, Dtype dtype, const ValueAndGradients& one,
                const ValueAndGradients& other) {
  const double size = sample.terms * (1 + largest(one.value));
  CHECK(difference(one.value, other.value) <= tolerance(dtype, size));
  REQUIRE(one.gradients.size() == other.gradients.size());
  for (size_t i = 0; i < one.gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(difference(one.gradients[i], other.gradients[i]) <=
          tolerance(dtype, 4 * size * (1 + largest(one.gradients[i]))));
  }
}

// x's values in memory of its own, at the given strides and offset, among numbers that are not x's.
Tensor lying_at(const Tensor& x, const Strides& strides, Index offset) {
  Index last = offset;
  for (int i = 0; i < x.rank(); ++i) last += strides[i] * std::max<Index>(0, x.size(i) - 1);
  const Tensor stored = Tensor::full({last + 1}, is_real(x.dtype()) ? NAN : -1e15, x.dtype());
  const Tensor view = stored.window(x.shape(), strides, x.size() > 0 ? offset : 0);
  view.backend().copy(x.view(), view.view());
  return view;
}

Tensor reversed_in_memory(const Tensor& x) {
  Short<int> order;
  for (int i = x.rank() - 1; i >= 0; --i) order.push_back(i);
  return lying_at(x, dense_strides(x.shape(), order), 0);
}

// Every third number, of rows that are longer than they look, and not from the beginning.
Tensor with_gaps(const Tensor& x) {
  Strides strides(x.rank(), 0);
  Index stride = 3;
  for (int i = x.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= x.size(i) + 2;
  }
  return lying_at(x, strides, 5);
}

// The first of x's slices along a dimension, again and again: real copies, or stride 0.
Tensor first_repeated(const Tensor& x, int axis, bool copied) {
  if (axis < 0 || axis >= x.rank() || x.size(axis) == 0) return x;
  Strides strides = x.strides();
  strides[axis] = 0;
  const Tensor view = x.window(x.shape(), strides);
  return copied ? lying_at(view, row_major(x.shape()), 0) : view;
}

template <class F>
Tensors each(const Tensors& inputs, F f) {
  Tensors results;
  for (const Tensor& in : inputs) results.push_back(f(in));
  return results;
}

bool is_comparison(const Sample& sample) {
  const std::string operation = sample.name.substr(0, sample.name.find_first_of(" ,"));
  return operation == "step" || operation == "less" || operation == "equal" ||
         sample.name == "unary_of_sum, step";
}

// Checks that one pass computes the same bits as one step after the other, in value and gradients,
// however the inputs lie in memory and on any number of threads.
void same_in_one_pass(const std::function<Tensor(const Tensors&)>& once,
                      const std::function<Tensor(const Tensors&)>& apart, const Tensors& inputs) {
  const int before = threads();
  for (int count : {1, 2})
    for (const auto& lying : {+[](const Tensor& x) { return x; }, reversed_in_memory, with_gaps}) {
      set_threads(count);
      const Tensors given = each(inputs, lying);
      const auto a = differentiate(once, given), b = differentiate(apart, given);
      CHECK(a.value.values<double>() == b.value.values<double>());
      for (size_t i = 0; i < inputs.size(); ++i)
        CHECK(a.gradients[i].values<double>() == b.gradients[i].values<double>());
    }
  set_threads(before);
}

// A sample with another value in one place of one of its inputs.
struct Poke {
  const Sample& sample;
  const Tensors& inputs;
  size_t place;
  Index i;

  struct Outcome {
    std::vector<double> values, gradients;
  };
  Outcome with(double value) const {
    Tensors poked = inputs;
    std::vector<double> values = inputs[place].values<double>();
    values[i] = value;
    poked[place] = cast(Tensor::of<double>(inputs[place].shape(), values), inputs[place].dtype());
    const auto [y, gradients] = differentiate(sample.apply, poked);
    Outcome outcome{y.values<double>(), {}};
    for (const Tensor& gradient : gradients)
      for (double number : gradient.values<double>()) outcome.gradients.push_back(number);
    return outcome;
  }
  double was() const { return inputs[place].values<double>()[i]; }
  Outcome unchanged() const { return with(was()); }

  // The values that any of a few numbers, small, large and infinite, changes.
  std::vector<bool> reached(const Outcome& before) const {
    std::vector<bool> changed(before.values.size());
    for (double value :
         {was() + 1, was() - 1, was() * 0.3, 100.0, -100.0, double{INFINITY}, -double{INFINITY}}) {
      const Outcome now = with(value);
      for (size_t k = 0; k < now.values.size(); ++k)
        if (!(now.values[k] == before.values[k])) changed[k] = true;
    }
    return changed;
  }
};

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
      check_same(sample, Dtype::f64, differentiate(sample.apply, inputs, true),
                 differentiate(sample.apply, inputs));
    }
  }

  TEST_CASE("every kernel of a fused operation has the value that it means") {
    std::set<std::string> seen;
    for (const Sample& sample : op_samples())
      for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
        CAPTURE(sample.name);
        CAPTURE(name_of(dtype));
        Tensors known = each(sample.inputs(dtype), [](const Tensor& in) {
          return is_real(in.dtype()) ? in.variable() : in;
        });
        const Tensors inputs = known;
        const RecordWatch watch([&](const Tensor& made) {
          const RecordWatch inside([](const Tensor& part) { return part; });
          if (const Tensor meaning = meaning_of(made, known)) {
            seen.insert(made.made_by()->op);
            const double size = sample.terms * (1 + largest(meaning));
            CHECK(difference(made, meaning) <= tolerance(dtype, size));
          }
          known.push_back(made);
          return made;
        });
        sample.apply(inputs);
      }
    CHECK(seen == std::set<std::string>{"attend", "cross_entropy", "layer_norm", "recomputed",
                                        "rms_norm", "softmax", "unary_of_sum"});
  }

  TEST_CASE("wherever the inputs lie in memory, value and gradient are the same") {
    for (const Sample& sample : op_samples())
      for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
        CAPTURE(sample.name);
        CAPTURE(name_of(dtype));
        const Tensors inputs = sample.inputs(dtype);
        const auto plain = differentiate(sample.apply, inputs);
        check_same(sample, dtype, plain,
                   differentiate(sample.apply, each(inputs, reversed_in_memory)));
        check_same(sample, dtype, plain, differentiate(sample.apply, each(inputs, with_gaps)));
      }
  }

  TEST_CASE("an input that is repeated with stride 0 counts as what it looks like") {
    for (const Sample& sample : op_samples())
      for (Dtype dtype : {Dtype::f32, Dtype::f64})
        for (int axis = 0; axis < 4; ++axis) {
          CAPTURE(sample.name);
          CAPTURE(name_of(dtype));
          CAPTURE(axis);
          const auto repeated = [&](bool copied) {
            return each(sample.inputs(dtype),
                        [&](const Tensor& in) { return first_repeated(in, axis, copied); });
          };
          check_same(sample, dtype, differentiate(sample.apply, repeated(true)),
                     differentiate(sample.apply, repeated(false)));
        }
  }

  TEST_CASE("every operation takes tensors without elements, and gives gradients of their shapes") {
    std::set<std::string> all, empty;
    for (const Sample& sample : op_samples()) {
      CAPTURE(sample.name);
      const std::string operation = sample.name.substr(0, sample.name.find_first_of(" ,"));
      all.insert(operation);
      const Tensors inputs = sample.inputs(Dtype::f64);
      size_t i = 0;
      const Tensors gradients = differentiate(sample.apply, inputs).gradients;
      for (const Tensor& in : inputs) {
        if (in.size() == 0) empty.insert(operation);
        if (is_real(in.dtype()) && !gradients.empty()) CHECK(gradients[i++].shape() == in.shape());
      }
    }
    for (const std::string& operation : all) {
      CAPTURE(operation);
      CHECK(empty.contains(operation));
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

  TEST_CASE("what is small is right to the third order") {
    int checked = 0;
    for (const Sample& sample : op_samples()) {
      const Tensors inputs = sample.inputs(Dtype::f64);
      Index most = sample.apply(inputs).size();
      for (const Tensor& in : inputs) most = std::max(most, in.size());
      if (!sample.differentiable || most == 0 || most > 9) continue;
      CAPTURE(sample.name);
      const GradReport report = check_gradient(sample.apply, inputs, 3);
      CAPTURE(report);
      CHECK(report.passed());
      CHECK(report.worst_of_order(3) <= 1e-4);
      ++checked;
    }
    CHECK(checked > 80);
  }

  TEST_CASE("a NaN reaches exactly the results that its number can change") {
    for (const Sample& sample : op_samples())
      for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
        if (!sample.differentiable) continue;
        CAPTURE(sample.name);
        CAPTURE(name_of(dtype));
        const bool compares = is_comparison(sample);  // 1 or 0, and 0 for a NaN
        const Tensors inputs = sample.inputs(dtype);
        for (size_t place = 0; place < inputs.size(); ++place) {
          if (!is_real(inputs[place].dtype())) continue;
          for (Index i = 0; i < std::min<Index>(inputs[place].size(), 40); ++i) {
            CAPTURE(place);
            CAPTURE(i);
            const Poke poke{sample, inputs, place, i};
            const Poke::Outcome before = poke.unchanged(), after = poke.with(NAN);
            const std::vector<bool> reached = poke.reached(before);
            size_t wrong = 0;
            for (size_t k = 0; k < reached.size(); ++k)
              wrong += std::isnan(after.values[k]) != (reached[k] && !compares);
            CHECK(wrong == 0);
            if (std::none_of(reached.begin(), reached.end(), [](bool changed) { return changed; }))
              CHECK(after.gradients == before.gradients);
          }
        }
      }
  }

  TEST_CASE("no operation keeps memory once its results are gone") {
    for (const Sample& sample : op_samples()) {
      CAPTURE(sample.name);
      sample.apply(sample.inputs(Dtype::f64));
      const size_t before = memory_use().live;
      {
        Tensors xs;
        const Tensors inputs = each(sample.inputs(Dtype::f64), [&](const Tensor& in) {
          if (!is_real(in.dtype())) return in;
          xs.push_back(in.variable());
          return xs.back();
        });
        const Tensor y = sample.apply(inputs);
        if (y.tracked()) {
          const Tensors slopes = grad(y, xs, {.keep_graph = true});
          CHECK(memory_use().live >= before);
          if (slopes[0] && slopes[0].tracked()) grad(slopes[0], xs);
        }
      }
      CHECK(memory_use().live == before);
    }
  }

  TEST_CASE("op(a + b) in one pass has the bits of the sum and the operation") {
    struct Row {
      Unary op;
      double low, high;
    };
    const Row rows[] = {
#define UNARY(name, value, gradient, low, high) {Unary::name, low, high},
#define BINARY(name, value, gradient_a, gradient_b, low, high)
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
    };
    for (const Shape& shape : {Shape{0, 3}, Shape{1, 1}, Shape{67, 131}, Shape{257, 131}})
      for (Dtype dtype : {Dtype::f32, Dtype::f64})
        for (const Row& row : rows) {
          CAPTURE(static_cast<int>(row.op));
          CAPTURE(shape);
          CAPTURE(name_of(dtype));
          // Half of the range that the operation is checked on.
          const auto half = [&](const Tensor& x) {
            return (x * ((row.high - row.low) / 4) + (row.high + row.low) / 4).detach();
          };
          const Tensors inputs{half(sin(numbers(shape, 1, dtype))),
                               half(sin(numbers({shape.back()}, 2, dtype)))};
          const auto once = [&](const Tensors& in) {
            return unary_of_sum(row.op, "n d, d", in[0], in[1]);
          };
          const auto apart = [&](const Tensors& in) {
            return unary(row.op, add("n d, d", in[0], in[1]));
          };
          same_in_one_pass(once, apart, inputs);
        }
    const auto along = [](const Tensors& in) {
      return unary_of_sum(Unary::gelu, "n, n d", in[0], in[1]);
    };
    same_in_one_pass(along, [](const Tensors& in) { return gelu(add("n, n d", in[0], in[1])); },
                     {numbers({3}, 1, Dtype::f32), numbers({3, 20011}, 2, Dtype::f32)});
  }

  TEST_CASE("a sum and its norm in one pass have the bits of both") {
    const auto both = [](const SumWithNorm& made) { return made.sum * made.norm(); };
    for (const Shape& shape : {Shape{0, 3}, Shape{1, 1}, Shape{2, 3, 37}, Shape{257, 131}})
      for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
        CAPTURE(shape);
        CAPTURE(name_of(dtype));
        const Tensor x = numbers(shape, 1, dtype), r = numbers(shape, 2, dtype);
        const Tensor scale = numbers({shape.back()}, 3, dtype),
                     bias = numbers({shape.back()}, 4, dtype);
        same_in_one_pass(
            [&](const Tensors& in) {
              return both(sum_with_norm(in[0], in[1], {in[2], in[3]}));
            },
            [](const Tensors& in) {
              const Tensor s = in[0] + in[1];
              return s * layer_norm(s, in[2], in[3]);
            },
            {x, r, scale, bias});
        same_in_one_pass(
            [&](const Tensors& in) { return both(sum_with_norm(in[0], in[1], {in[2]})); },
            [](const Tensors& in) {
              const Tensor s = in[0] + in[1];
              return s * rms_norm(s, in[2]);
            },
            {x, r, scale});
      }
  }

  TEST_CASE("where another sum is put in the place of one, the norm is of that") {
    const Tensor x = numbers({3, 5}, 1, Dtype::f64).variable(), scale = numbers({5}, 2, Dtype::f64);
    const RecordWatch watch([](const Tensor& made) {
      return std::string(made.made_by()->op) == "add" ? made * 3.0 : made;
    });
    const SumWithNorm made = sum_with_norm(x, x, {scale});
    CHECK(difference(made.sum, x * 6.0) < 1e-12);
    CHECK(difference(made.norm(), rms_norm(made.sum, scale)) == 0);
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
