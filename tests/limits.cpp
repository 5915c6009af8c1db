// Where operations are not smooth, not finite, or given nothing: what IEEE 754 says, and what
// core/elementwise.def and core/ops.hpp say where it is a choice.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/ops.hpp"

using namespace tete;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), NaN = NAN;

Tensor row(const std::vector<double>& values, Dtype dtype = Dtype::f64) {
  return cast(Tensor::of<double>({static_cast<Index>(values.size())}, values), dtype);
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b; }

// Numbers that must be equal, NaN to NaN.
void check_equal(const Tensor& got, const std::vector<double>& expected) {
  const std::vector<double> values = got.values<double>();
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    CHECK_MESSAGE(same(values[i], expected[i]), "element ", i, " is ", values[i], ", expected ",
                  expected[i]);
}

// The gradients of Σ y with respect to inputs that are rows of one number each, or longer.
Tensors slopes(const std::function<Tensor(const Tensors&)>& f,
               const std::vector<std::vector<double>>& inputs, bool keep_graph, Dtype dtype) {
  Tensors xs;
  for (const std::vector<double>& values : inputs) xs.push_back(row(values, dtype).variable());
  return grad(f(xs), xs, {.keep_graph = keep_graph});
}

struct Choice {
  const char* name;
  std::function<Tensor(const Tensors&)> f;
  std::vector<std::vector<double>> inputs, gradients;
};

const std::vector<Choice>& choices() {
  static const std::vector<Choice> all = {
      {"relu", [](const Tensors& in) { return relu(in[0]); }, {{0, -0.0, 1, -1}}, {{0, 0, 1, 0}}},
      {"abs", [](const Tensors& in) { return abs(in[0]); }, {{0, -0.0, 2, -2}}, {{0, 0, 1, -1}}},
      {"elu", [](const Tensors& in) { return elu(in[0]); }, {{0, -0.0, 2}}, {{1, 1, 1}}},
      {"step", [](const Tensors& in) { return step(in[0]); }, {{0, 1, -1}}, {{0, 0, 0}}},
      {"floor", [](const Tensors& in) { return floor(in[0]); }, {{0, 1, 1.5}}, {{0, 0, 0}}},
      {"max of two",
       [](const Tensors& in) { return max(in[0], in[1]); },
       {{3, 3, 1, 0}, {3, 2, 4, -0.0}},
       {{1, 1, 0, 1}, {0, 0, 1, 0}}},
      {"min of two",
       [](const Tensors& in) { return min(in[0], in[1]); },
       {{3, 3, 1, 0}, {3, 2, 4, -0.0}},
       {{1, 0, 1, 1}, {0, 1, 0, 0}}},
      {"less",
       [](const Tensors& in) { return less(in[0], in[1]); },
       {{3, 1}, {3, 2}},
       {{0, 0}, {0, 0}}},
      {"equal",
       [](const Tensors& in) { return equal(in[0], in[1]); },
       {{3, 1}, {3, 2}},
       {{0, 0}, {0, 0}}},
      {"maximum of a row",
       [](const Tensors& in) { return max("[a]", in[0]); },
       {{5, 2, 5, 5, 5}},
       {{0.25, 0, 0.25, 0.25, 0.25}}},
      {"maximum of a row that is -inf",
       [](const Tensors& in) { return max("[a]", in[0]); },
       {{-inf, -inf}},
       {{0.5, 0.5}}},
      {"sqrt", [](const Tensors& in) { return sqrt(in[0]); }, {{0, 4}}, {{inf, 0.25}}},
      {"log", [](const Tensors& in) { return log(in[0]); }, {{0, 4}}, {{inf, 0.25}}},
      {"pow",
       [](const Tensors& in) { return pow(in[0], in[1]); },
       {{0, 0, 0, 2, -2}, {2, 1, 0, 3, 2}},
       {{0, 1, 0, 12, -4}, {0, 0, 0, 8 * std::log(2.0), NaN}}},
      {"softmax of what is hidden",
       [](const Tensors& in) { return softmax(in[0], 0, Tensor::zeros({3}, in[0].dtype())); },
       {{NaN, inf, 3}},
       {{0, 0, 0}}},
      {"logsumexp of -inf",
       [](const Tensors& in) { return logsumexp("[a]", in[0]); },
       {{-inf, 0, -inf}},
       {{0, 1, 0}}},
      {"logsumexp of nothing else",
       [](const Tensors& in) { return logsumexp("[a]", in[0]); },
       {{-inf, -inf}},
       {{0, 0}}},
  };
  return all;
}

}  // namespace

TEST_SUITE("limits") {
  TEST_CASE("where there are several slopes the documented one is taken, by kernel and meaning") {
    for (const Choice& choice : choices())
      for (Dtype dtype : {Dtype::f32, Dtype::f64})
        for (bool keep_graph : {false, true}) {
          CAPTURE(choice.name);
          CAPTURE(keep_graph);
          const Tensors found = slopes(choice.f, choice.inputs, keep_graph, dtype);
          REQUIRE(found.size() == choice.gradients.size());
          for (size_t i = 0; i < found.size(); ++i) {
            CAPTURE(i);
            check_equal(found[i], row(choice.gradients[i], dtype).values<double>());
          }
        }
  }

  TEST_CASE("infinity and NaN go through as IEEE 754 has them") {
    struct Case {
      const char* name;
      std::function<Tensor(const Tensors&)> f;
      std::vector<std::vector<double>> inputs;
      std::vector<double> result;
    };
    const auto times = [](const Tensors& in) { return einsum("a, a -> a", in[0], in[1]); };
    const auto inner = [](const Tensors& in) { return einsum("a, a ->", in[0], in[1]); };
    const Case cases[] = {
        {"a + b",
         [](const Tensors& in) { return in[0] + in[1]; },
         {{inf, inf, 1, NaN}, {-inf, inf, -inf, 1}},
         {NaN, inf, -inf, NaN}},
        {"a / b",
         [](const Tensors& in) { return in[0] / in[1]; },
         {{1, -1, 0, inf, 1, 1}, {0, 0, 0, inf, inf, -0.0}},
         {inf, -inf, NaN, NaN, 0, -inf}},
        {"pow",
         [](const Tensors& in) { return pow(in[0], in[1]); },
         {{0, NaN, 1, inf, -8, 0}, {0, 0, NaN, -1, 0.5, -1}},
         {1, 1, 1, 0, NaN, inf}},
        {"max",
         [](const Tensors& in) { return max(in[0], in[1]); },
         {{NaN, 1, inf, -inf}, {1, NaN, 2, -3}},
         {NaN, NaN, inf, -3}},
        {"min",
         [](const Tensors& in) { return min(in[0], in[1]); },
         {{NaN, 1, inf, -inf}, {1, NaN, 2, -3}},
         {NaN, NaN, 2, -inf}},
        {"less",
         [](const Tensors& in) { return less(in[0], in[1]); },
         {{NaN, 1, -inf, inf}, {1, NaN, inf, inf}},
         {0, 0, 1, 0}},
        {"equal",
         [](const Tensors& in) { return equal(in[0], in[1]); },
         {{NaN, inf, 0}, {NaN, inf, -0.0}},
         {0, 1, 1}},
        {"step", [](const Tensors& in) { return step(in[0]); }, {{NaN, inf, -inf}}, {0, 1, 0}},
        {"floor",
         [](const Tensors& in) { return floor(in[0]); },
         {{NaN, inf, -inf, -0.5}},
         {NaN, inf, -inf, -1}},
        {"select",
         [](const Tensors& in) { return select(in[0], in[1], in[2]); },
         {{0, 1, NaN, 0}, {NaN, NaN, 3, 5}, {7, 7, 7, inf}},
         {7, NaN, 3, inf}},
        {"sum", [](const Tensors& in) { return sum(in[0]); }, {{inf, 1, -inf}}, {NaN}},
        {"sum of inf", [](const Tensors& in) { return sum(in[0]); }, {{inf, 1, 2}}, {inf}},
        {"mean", [](const Tensors& in) { return mean(in[0]); }, {{-inf, 1}}, {-inf}},
        {"maximum", [](const Tensors& in) { return max("[a]", in[0]); }, {{1, NaN, inf}}, {NaN}},
        {"logsumexp",
         [](const Tensors& in) { return logsumexp("[a]", in[0]); },
         {{-inf, 3, -inf}},
         {3}},
        {"logsumexp of -inf",
         [](const Tensors& in) { return logsumexp("[a]", in[0]); },
         {{-inf, -inf}},
         {-inf}},
        {"softmax of -inf",
         [](const Tensors& in) { return softmax(in[0], 0); },
         {{-inf, 3, -inf}},
         {0, 1, 0}},
        {"softmax of NaN",
         [](const Tensors& in) { return softmax(in[0], 0); },
         {{NaN, 3}},
         {NaN, NaN}},
        {"a product by zero", times, {{inf, NaN, 0, 2}, {0, 0, -inf, inf}}, {NaN, NaN, NaN, inf}},
        {"inner product", inner, {{inf, 1, 2}, {1, 2, 3}}, {inf}},
        {"inner product of inf and 0", inner, {{inf, 1, 2}, {0, 2, 3}}, {NaN}},
        {"inner product of inf and -inf", inner, {{inf, inf}, {1, -1}}, {NaN}},
        {"a matrix product",
         [](const Tensors& in) {
           return reshape(einsum("i j, j k -> i k", reshape(in[0], {2, 2}), reshape(in[1], {2, 3})),
                          {6});
         },
         {{1, 0, 2, 1}, {3, inf, 4, NaN, 5, 6}},
         {NaN, inf, 4, NaN, inf, 14}},
        {"layer_norm",
         [](const Tensors& in) { return layer_norm(in[0], in[1], in[1]); },
         {{1, inf, 2}, {1, 1, 1}},
         {NaN, NaN, NaN}},
    };
    for (const Case& c : cases)
      for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
        CAPTURE(c.name);
        Tensors inputs;
        for (const std::vector<double>& values : c.inputs) inputs.push_back(row(values, dtype));
        check_equal(c.f(inputs), c.result);
      }
  }

  TEST_CASE("the sum of nothing is 0, its mean NaN, its maximum and logsumexp -inf") {
    for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const Tensor x = Tensor::zeros({2, 0}, dtype);
      check_equal(sum("a [b]", x), {0, 0});
      check_equal(mean("a [b]", x), {NaN, NaN});
      check_equal(max("a [b]", x), {-inf, -inf});
      check_equal(logsumexp("a [b]", x), {-inf, -inf});
      check_equal(einsum("a b, b -> a", x, Tensor::zeros({0}, dtype)), {0, 0});
      check_equal(sum("[a] b", x), {});
    }
  }
}
