// The engine: tensors, the graph, the planner, layout and einsum against plain loops.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "core/derivatives.hpp"
#include "core/ops.hpp"
#include "core/plan.hpp"
#include "core/threads.hpp"

using namespace tete;

namespace {

Tensor numbers(const Shape& shape, uint64_t seed, Dtype dtype = Dtype::f64) {
  return random_uniform(shape, Key(seed), dtype) * 2.0 - 1.0;
}

bool near(const Tensor& a, const Tensor& b, double bound = 1e-12) {
  if (!(a.shape() == b.shape())) return false;
  const auto x = a.values<double>(), y = b.values<double>();
  for (size_t i = 0; i < x.size(); ++i)
    if (!(std::fabs(x[i] - y[i]) <= bound * (1 + std::fabs(y[i])))) return false;
  return true;
}

// einsum as a loop over every combination of all labels: the definition.
Tensor naive_einsum(const Pattern& pattern, const Tensors& operands) {
  std::vector<Shape> shapes;
  Sizes sizes;
  for (size_t i = 0; i < operands.size(); ++i) {
    shapes.push_back(operands[i].shape());
    const Term& term = pattern.operand(static_cast<int>(i));
    for (int k = 0; k < term.size(); ++k) sizes[term[k].label] = shapes[i][k];
  }
  Shape result;
  for (Label label : Pattern::labels(pattern.result())) result.push_back(sizes[label]);
  std::vector<double> out(static_cast<size_t>(element_count(result)), 0.0);
  std::vector<std::vector<double>> values;
  for (const Tensor& operand : operands) values.push_back(operand.values<double>());
  Index total = 1;
  for (int i = 0; i < pattern.name_count(); ++i) total *= sizes[static_cast<size_t>(i)];
  std::vector<Index> at(max_names);
  const auto offset = [&](const Term& term, const Shape& shape) {
    Index place = 0;
    for (int k = 0; k < term.size(); ++k) place = place * shape[k] + at[term[k].label];
    return static_cast<size_t>(place);
  };
  for (Index step = 0; step < total; ++step) {
    Index rest = step;
    for (int i = pattern.name_count() - 1; i >= 0; --i) {
      at[static_cast<size_t>(i)] = rest % sizes[static_cast<size_t>(i)];
      rest /= sizes[static_cast<size_t>(i)];
    }
    double product = 1;
    for (size_t i = 0; i < operands.size(); ++i)
      product *= values[i][offset(pattern.operand(static_cast<int>(i)), shapes[i])];
    out[offset(pattern.result(), result)] += product;
  }
  return Tensor::of<double>(result, std::span<const double>(out));
}

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("a gradient adds over every path and stops where nothing is tracked") {
    const Tensor x = Tensor::of<double>({3}, {1, 2, 3}).variable();
    const Tensor c = Tensor::of<double>({3}, {5, 7, 11});
    const Tensor y = sum(x * x * c + x);  // dy/dx = 2 x c + 1
    CHECK(near(grad(y, {{x}})[0], Tensor::of<double>({3}, {11, 29, 67})));
    CHECK_FALSE(grad(y, {{c}})[0]);
    CHECK_THROWS_WITH_AS(grad(c, {{x}}), doctest::Contains("depends on no tracked tensor"), Error);
  }

  TEST_CASE("an intermediate can be asked for beside what it was made from") {
    const Tensor x = Tensor::of<double>({2}, {3, 4}).variable();
    const Tensor h = x * x;
    const Tensors g = grad(sum(h * x), {{x, h}});  // h x = x^3
    CHECK(near(g[0], Tensor::of<double>({2}, {27, 48})));
    CHECK(near(g[1], x));
  }

  TEST_CASE("gradients have gradients, to the third order") {
    const Tensor x = Tensor::of<double>({}, {0.7}).variable();
    const Tensor y = tanh(x);
    const Tensor first = grad(y, {{x}}, {.keep_graph = true})[0];
    const Tensor second = grad(first, {{x}}, {.keep_graph = true})[0];
    const Tensor third = grad(second, {{x}})[0];
    const double t = std::tanh(0.7), s = 1 - t * t;
    CHECK(first.item() == doctest::Approx(s));
    CHECK(second.item() == doctest::Approx(-2 * t * s));
    CHECK(third.item() == doctest::Approx(s * (6 * t * t - 2)));
    CHECK_FALSE(third.tracked());
  }

  TEST_CASE("jvp and hvp agree with differences along the direction") {
    const Tensor a = numbers({3, 4}, 1), b = numbers({4}, 2), v = numbers({3, 4}, 3),
                 w = numbers({4}, 4);
    const auto f = [](const Tensor& x, const Tensor& s) { return softmax(rms_norm(x, s), 1); };
    const auto moved = [&](double t) { return f(a + v * t, b + w * t); };
    const double h = 1e-5;
    const Tensor x = a.variable(), s = b.variable();
    CHECK(near(jvp(f(x, s), {{x, s}}, {{v, w}}), (moved(h) - moved(-h)) / (2 * h), 1e-8));
    const Tensor c = numbers({3, 4}, 5);
    const auto slope = [&](double t) {
      const Tensor xt = (a + v * t).variable(), st = (b + w * t).variable();
      return grad(sum(f(xt, st) * c), {{xt, st}});
    };
    const Tensors exact = hvp(sum(f(x, s) * c), {{x, s}}, {{v, w}});
    const Tensors plus = slope(h), minus = slope(-h);
    for (size_t i = 0; i < 2; ++i) CHECK(near(exact[i], (plus[i] - minus[i]) / (2 * h), 1e-7));
    CHECK(near(jvp(f(x, s), {{c.variable()}}, {{v}}), Tensor::zeros({3, 4}, Dtype::f64)));
  }

  TEST_CASE("a fused operation whose inputs depend on each other has the right gradients") {
    const Tensor x = numbers({4, 5}, 1).variable();
    const Tensor s = sum("[a] b", x);  // depends on x
    const Tensor once = rms_norm(x, s);
    const Tensor r = rsqrt(mean(square(x), {1}, true) + norm_epsilon);
    const Tensor plain = mul("a b, b", x * broadcast(r, x.shape()), s);
    const Tensor c = numbers({4, 5}, 2);
    CHECK(near(grad(sum(once * c), {{x}})[0], grad(sum(plain * c), {{x}})[0], 1e-10));
    const auto second = [&](const Tensor& y) {
      const Tensor g = grad(sum(y * c), {{x}}, {.keep_graph = true})[0];
      return grad(sum(g * g), {{x}})[0];
    };
    CHECK(near(second(once), second(plain), 1e-9));
  }

  TEST_CASE("a chain of two million operations is differentiated and released") {
    const MemoryUse before = memory_use();
    {
      const Tensor x = Tensor::scalar(1.0, Dtype::f64).variable();
      Tensor y = x;
      for (int i = 0; i < 2'000'000; ++i) y = permute(reshape(y, {1}), {0});
      CHECK(grad(sum(y), {{x}})[0].item() == 1.0);
    }
    CHECK(memory_use().live == before.live);
  }

  TEST_CASE("a steady computation asks the system for no memory") {
    const auto step = [] {
      const Tensor x = numbers({31, 17}, 3, Dtype::f32).variable();
      return grad(sum(tanh(einsum("a b, c b -> a c", x, x))), {{x}})[0];
    };
    step();
    step();
    const size_t allocations = memory_use().system_allocations;
    for (int i = 0; i < 5; ++i) step();
    CHECK(memory_use().system_allocations == allocations);
  }

  TEST_CASE("einsum equals the loop over all of its names") {
    const std::map<std::string, Index> sizes = {{"a", 1}, {"b", 3}, {"c", 5},
                                                {"d", 7}, {"e", 2}, {"z", 0}};
    const char* const patterns[] = {
        "a b, b c -> a c",       "b c, d c -> b d",
        "c b, c d -> d b",       "e b c, e c d -> e b d",
        "b e c, d e c -> e b d", "b c, b c -> ",
        "b c, b c -> b",         "b c, b c -> b c",
        "b, c -> b c",           "b c, e -> b c e",
        "b c d, d -> b c",       "b c d, b -> c",
        "b c d -> d b",          "b c d -> ",
        "b c d, e -> b",         "b z, z c -> b c",
        "z b, b c -> z c",       "b c, c d, d e -> b e",
        "b c, b c, b c -> c",    "b c d, b e, e c, d -> ",
        "b, b, c, c, d -> d",    "e b c d, e d c -> b e",
        "d c b e, b e d -> c",   "b c e, c e d -> d b",
        "a c, b c -> a b",       "c a, c b -> b a",
        "b c d e, c e -> d b",
    };
    for (const char* text : patterns) {
      const Pattern pattern = Pattern::parse(text);
      CAPTURE(text);
      Tensors operands;
      for (int i = 0; i < pattern.operand_count(); ++i) {
        Shape shape;
        for (const Axis& axis : pattern.operand(i))
          shape.push_back(sizes.at(std::string(pattern.name(axis.label))));
        operands.push_back(numbers(shape, static_cast<uint64_t>(i) + 7));
      }
      CHECK(near(einsum(pattern, operands), naive_einsum(pattern, operands)));
      Tensors single;
      for (const Tensor& operand : operands) single.push_back(cast(operand, Dtype::f32));
      CHECK(near(cast(einsum(pattern, single), Dtype::f64), naive_einsum(pattern, operands), 1e-5));
    }
  }

  TEST_CASE("einsum reads '...', an implied result, splits and merges as NumPy and einops do") {
    const Tensor A = numbers({2, 3, 5, 7}, 1), B = numbers({3, 7, 4}, 2), C = numbers({5, 5}, 3);
    CHECK(near(einsum("... i j, b j k -> ... b i k", A, B),
               einsum("x y i j, b j k -> x y b i k", A, B)));
    CHECK(near(
        einsum("i ... k, ... k j -> ... i j", A, permute(numbers({3, 5, 7, 4}, 4), {0, 1, 2, 3})),
        einsum("i x y k, x y k j -> x y i j", A, numbers({3, 5, 7, 4}, 4))));
    CHECK(near(einsum("ij,jk", numbers({2, 3}, 5), numbers({3, 4}, 6)),
               einsum("i j, j k -> i k", numbers({2, 3}, 5), numbers({3, 4}, 6))));
    CHECK(near(einsum("ba", numbers({2, 3}, 5)), permute(numbers({2, 3}, 5), {1, 0})));
    CHECK(near(einsum("ii", C), einsum("i i -> ", C)));
    CHECK(near(einsum("...ii", C), einsum("i i -> ", C)));
    const Tensor X = numbers({4, 6}, 7), P = numbers({2, 3, 5}, 8);
    CHECK(near(
        einsum("n (h d), h d e -> n (e h)", X, P),
        rearrange("n e h -> n (e h)", einsum("n h d, h d e -> n e h",
                                             rearrange("n (h d) -> n h d", X, {{"h", 2}}), P))));
    CHECK_THROWS_WITH_AS(einsum("a b, b c -> a c", numbers({2, 1}, 1), numbers({3, 4}, 2)),
                         doctest::Contains("not repeated silently"), Error);
    CHECK_THROWS_WITH_AS(einsum("... a, ... b -> ... a b", numbers({2, 3}, 1), numbers({1, 4}, 2)),
                         doctest::Contains("not repeated silently"), Error);
    CHECK_THROWS_WITH_AS(einsum("n (h d) -> n h d", X), doctest::Contains("follows from no"),
                         Error);
    CHECK_THROWS_WITH_AS(add(Pattern::parse("... d, d"), X, C),
                         doctest::Contains("only einsum takes"), Error);
  }

  TEST_CASE("einsum of more than eight operands is planned greedily and right") {
    const Pattern chain = Pattern::parse("a b, b c, c d, d e, e f, f g, g h, h i, i j, j k -> a k");
    Tensors operands;
    for (uint64_t i = 0; i < 10; ++i) operands.push_back(numbers({2, 2}, i));
    CHECK(near(einsum(chain, operands), naive_einsum(chain, operands), 1e-10));
  }

  TEST_CASE("the planner finds the cheapest order and counts its multiplies") {
    Sizes sizes;
    sizes.fill(0);
    sizes[0] = 2, sizes[1] = 100, sizes[2] = 3, sizes[3] = 50;  // a b c d
    const Plan chain = plan({{0, 1}, {1, 2}, {2, 3}}, {0, 3}, sizes);
    CHECK(chain.multiplies == 2 * 100 * 3 + 2 * 3 * 50);
    CHECK(chain.naive_multiplies == 2.0 * 100 * 3 * 50);
    CHECK(chain.steps.size() == 2);
  }

  TEST_CASE("the order in memory changes no value of a contraction") {
    const Tensor A = numbers({3, 5, 4}, 1), B = numbers({3, 7, 4}, 2);
    const Labels a{0, 1, 2}, b{0, 3, 2}, y{0, 1, 3};
    const Tensor plain = contract(A, a, B, b, y);
    for (const Labels& layout : {Labels{3, 1, 0}, Labels{1, 0, 3}, Labels{1, 3, 0}}) {
      const Tensor other = contract(A, a, B, b, y, layout);
      CHECK(near(other, plain));
      CHECK(other.strides()[y.find(layout.back())] == 1);
    }
  }

  TEST_CASE("rearrange splits, permutes and merges") {
    const Tensor x = arange(24, Dtype::f64);
    const Tensor y = rearrange("(a b c) -> c (b a)", x, {{"a", 2}, {"b", 3}});
    CHECK(y.shape() == Shape{4, 6});
    CHECK(y.values()[1] == 12.0);  // c=0, b=0, a=1
    CHECK(y.values()[2] == 4.0);   // c=0, b=1, a=0
    CHECK(near(rearrange("c (b a) -> (a b c)", y, {{"a", 2}}), x));
    CHECK_THROWS_WITH_AS(rearrange("(a b) -> a b", x, {{"a", 5}}),
                         doctest::Contains("does not split"), Error);
  }

  TEST_CASE("reshape of a view copies only where strides cannot say it") {
    const Tensor x = numbers({4, 6}, 5);
    CHECK(reshape(x, {2, 2, 6}).storage().same(x.storage()));
    const Tensor t = permute(x, {1, 0});
    CHECK_FALSE(reshape(t, {24}).storage().same(x.storage()));
    CHECK(reshape(t, {24}).values() == t.values());
    CHECK(reshape(Tensor::zeros({0, 3}), {3, 0, 2}).size() == 0);
  }

  TEST_CASE("a row of softmax that is hidden everywhere is zero and so is its gradient") {
    const Tensor x = numbers({2, 3}, 1).variable();
    const Tensor mask = Tensor::of<double>({2, 3}, {1, 0, 1, 0, 0, 0});
    const Tensor y = softmax(x, 1, mask);
    const auto values = y.values();
    CHECK(values[0] + values[2] == doctest::Approx(1));
    CHECK(values[1] == 0);
    for (size_t i = 3; i < 6; ++i) CHECK(values[i] == 0);
    for (double g : grad(sum(y * numbers({2, 3}, 2)), {{x}})[0].values()) CHECK(std::isfinite(g));
  }

  TEST_CASE("an index out of range is an error with both numbers") {
    const Tensor table = Tensor::zeros({5, 2});
    const Tensor index = Tensor::of<int64_t>({2}, {1, 5});
    CHECK_THROWS_WITH_AS(gather("[v] d, t -> t d", table, index), doctest::Contains("position 5"),
                         Error);
  }

  TEST_CASE("the same key gives the same numbers however a batch is cut") {
    const Key key = Key(3).fold("noise");
    const Tensor x = Tensor::ones({6, 5});
    const auto whole = dropout(x, 0.4, key).values();
    const Tensor tail = dropout(slice(x, 0, 2, 4), 0.4, key, 10);
    const auto part = tail.values();
    for (size_t i = 0; i < part.size(); ++i) CHECK(part[i] == whole[i + 10]);
  }

  TEST_CASE("uniform integers cover their range") {
    std::vector<int> count(7);
    for (uint64_t i = 0; i < 7000; ++i) ++count[uniform_below(Key(1), i, 7)];
    for (int c : count) CHECK(std::abs(c - 1000) < 150);
  }
}
