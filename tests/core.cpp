// The engine: tensors, the graph, layout, chance.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "core/derivatives.hpp"
#include "core/ops.hpp"
#include "core/threads.hpp"
#include "core/unchanged.hpp"

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

  TEST_CASE("each gradient is handed out when it is final, before older ones are computed") {
    const Tensor x = Tensor::of<double>({2}, {1, 2}).variable(), w = Tensor::scalar(3).variable(),
                 c = Tensor::scalar(5).variable(), unused = Tensor::scalar(1).variable();
    const Tensor h = x * x, older = sum(h * h), newer = cast(w, Dtype::f64) * 2.0;
    const Tensor y = older + newer;
    const Tensors xs{x, h, w, unused, y, x};
    std::vector<size_t> order;
    Tensors given(xs.size());
    const Tensors found = grad(y, xs, {.on_ready = [&](size_t i, const Tensor& g) {
                                 order.push_back(i);
                                 given[i] = g;
                               }});
    for (size_t i = 0; i < xs.size(); ++i) CHECK(given[i].same(found[i]));
    CHECK_FALSE(found[3]);
    CHECK(order == std::vector<size_t>{4, 2, 1, 0, 5});
    CHECK(near(found[0], Tensor::of<double>({2}, {4, 32})));
    CHECK(near(found[1], Tensor::of<double>({2}, {2, 8})));
  }

  TEST_CASE("the bytes of a tensor are those of a dense one of the processor") {
    const Tensor x = Tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6}), turned = permute(x, {1, 0});
    const auto numbers = [](const Tensor& t) {
      std::vector<double> all(t.host_bytes().size() / sizeof(double));
      std::memcpy(all.data(), t.host_bytes().data(), t.host_bytes().size());
      return all;
    };
    CHECK(numbers(x) == std::vector<double>{1, 2, 3, 4, 5, 6});
    CHECK(numbers(turned) == numbers(x));
    CHECK(numbers(x.window({2, 1, 3}, {3, 1, 1})) == numbers(x));
    CHECK(Tensor::zeros({0, 3}).host_bytes().empty());
    CHECK_THROWS_WITH_AS(slice(x, 1, 0, 2).host_bytes(), doctest::Contains("of a dense tensor"),
                         Error);
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
    CHECK(near(jvp(c, {{x}}, {{v}}), Tensor::zeros({3, 4}, Dtype::f64)));
    CHECK(near(hvp(sum(c), {{x}}, {{v}})[0], Tensor::zeros({3, 4}, Dtype::f64)));
    CHECK_THROWS_WITH_AS(hvp(x, {{x}}, {{v}}), "hvp: expected a scalar, got f64[3, 4]", Error);
    CHECK_THROWS_WITH_AS(jvp(x, {{x}}, {{w}}),
                         "jvp: direction 1 has shape [4], but its tensor [3, 4]", Error);
    CHECK_THROWS_WITH_AS(jvp(x, {{x, s}}, {{v}}),
                         "jvp: expected one direction for each of 2 tensors, got 1", Error);
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
      for (int i = 0; i < 2'000'000; ++i) y = -y;
      CHECK(grad(sum(y), {{x}})[0].item() == 1.0);
    }
    CHECK(memory_use().live == before.live);
  }

  TEST_CASE(
      "a long chain has gradients of gradients, through kernels and meanings, and is released") {
    const MemoryUse before = memory_use();
    {
      const Tensor x = Tensor::of<double>({1}, {0.5}).variable();
      Tensor y = x;
      for (int i = 0; i < 200'000; ++i) y = i % 100 == 0 ? sin(softmax(y, 0) + y) : sin(y);
      const Tensor slope = grad(sum(y), {{x}}, {.keep_graph = true})[0];
      CHECK(slope.tracked());
      CHECK(std::isfinite(grad(slope, {{x}})[0].item()));
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

  TEST_CASE("what a kernel makes of unchanged numbers it makes at its second call, and no more") {
    const Tensor x = random_normal({8, 16}, Key(1)), other = random_normal({8, 16}, Key(2));
    const Unchanged known({x, Tensor::empty({0, 3}, Dtype::f64, cpu())});
    const std::byte* const at = static_cast<const std::byte*>(x.view().data);
    CHECK(Unchanged::at(at) == nullptr);
    const Unchanged::Here here(known);
    const size_t bytes = 8 * 16 * size_of(x.dtype());
    CHECK(Unchanged::at(at) == &known);
    CHECK(Unchanged::at(at + bytes - 1) == &known);
    CHECK(Unchanged::at(at + bytes) == nullptr);
    CHECK(Unchanged::at(other.view().data) == nullptr);
    int made = 0;
    const auto ask = [&](const char* key, size_t size) {
      return known.made_of(key, size, [&](void* to) { std::memset(to, ++made, size); });
    };
    CHECK(ask("a", bytes / 2) == nullptr);
    const void* const first = ask("a", bytes / 2);
    REQUIRE(first != nullptr);
    CHECK(*static_cast<const char*>(first) == 1);
    CHECK(ask("a", bytes / 2) == first);
    CHECK(ask("b", bytes) == nullptr);
    CHECK(ask("b", bytes) == nullptr);  // copies take no more room than the numbers
    CHECK(made == 1);
    {
      const Unchanged none({});
      const Unchanged::Here inner(none);
      CHECK(Unchanged::at(at) == nullptr);
    }
    CHECK(Unchanged::at(at) == &known);
  }

  TEST_CASE("uniform integers cover their range") {
    std::vector<int> count(7);
    for (uint64_t i = 0; i < 7000; ++i) ++count[uniform_below(Key(1), i, 7)];
    for (int c : count) CHECK(std::abs(c - 1000) < 150);
  }

  TEST_CASE("numbers in sentences are written as people write them") {
    const double big = 9e15, small = 1e-3;
    CHECK(text(big, " ", 1e9, " ", 1048576.0, " ", -0.0) ==
          "9000000000000000 1000000000 1048576 0");
    CHECK(text(small, " ", 0.1, " ", 2.5e-7, " ", 0.1f) == "0.001 0.1 2.5e-7 0.1");
    CHECK(text(1e20, " ", 1e300, " ", 1.5e100) == "1e20 1e300 1.5e100");
    CHECK(text(NAN, " ", -NAN, " ", INFINITY, " ", -INFINITY) == "nan nan inf -inf");
    CHECK(text(int64_t{1} << 60, " ", 'c', " ", true) == "1152921504606846976 c 1");
  }

  TEST_CASE("what is invisible in an error's sentence is named") {
    const auto said = [](const std::string& sentence) {
      return std::string(Error(ErrorKind::input, sentence).what());
    };
    CHECK(said("'\xEF\xBB\xBFname'") == "'U+FEFFname'");
    CHECK(said("'a\xE2\x80\xAE' '\xE2\x80\x8B' '\xC2\xA0'") == "'aU+202E' 'U+200B' 'U+00A0'");
    // A family: the joiners belong to it.
    const std::string family = "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7";
    CHECK(said(family) == family);
    CHECK(said("a\xE2\x80\x8D") == "aU+200D");
  }

  TEST_CASE("whatever an error quotes, its sentence is printable") {
    const Error error(ErrorKind::input, "a\x1b[2Jb\tc\n\x07\xff\xc3\xa9\xc2\x9b\xed\xa0\x80\x7f.");
    CHECK(std::string(error.what()) ==
          "a\\x1b[2Jb\tc\n\\x07\\xff\xc3\xa9\\xc2\\x9b\\xed\\xa0\\x80\\x7f.");
  }
}
