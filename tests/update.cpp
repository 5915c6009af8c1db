// The one-pass updates of parameters, held to their formulas in double.
#include "core/update.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/cpu/rows.hpp"
#include "core/graph.hpp"
#include "core/ops.hpp"
#include "core/random.hpp"
#include "core/threads.hpp"

using namespace tete;

namespace {

// Numbers by chance that lie in memory in one of several ways.
Tensor lying(const Shape& shape, uint64_t seed, Dtype dtype, int how) {
  const Tensor x = random_normal(shape, Key(seed), dtype);
  if (how == 1 && x.rank() == 2) return with_layout(x, {1, 0});
  if (how == 2 && x.rank() == 2)  // every second column of what is twice as wide
    return random_normal({shape[0], 2 * shape[1]}, Key(seed), dtype)
        .window(shape, {2 * shape[1], 2}, 0);
  return x;
}

double largest_difference(const Tensor& x, const std::vector<double>& expected) {
  const std::vector<double> got = x.values();
  double most = 0;
  for (size_t i = 0; i < got.size(); ++i)
    most = std::max(most, std::fabs(got[i] - expected[i]) / (1 + std::fabs(expected[i])));
  return most;
}

double plain_squares(const std::vector<double>& x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return sum;
}

Tensor number(double value) { return Tensor::scalar(value, Dtype::f64); }

double sum_of_squares(const Tensor& x) {
  return sums_of_squares(std::span(&x, 1), x.backend()).item();
}

// Ones with the strides of x.
Tensor ones_like(const Tensor& x) {
  return Tensor::ones({2 * x.size() + 1}, x.dtype()).window(x.shape(), x.strides());
}

// A copy that lies as x does, gaps and all.
Tensor own_copy(const Tensor& x) {
  const Tensor copy = ones_like(x);
  copy_onto(x, copy);
  return copy;
}

void check_updates(const Shape& shape, Dtype dtype, int how_p, int how) {
  CAPTURE(shape);
  CAPTURE(how_p);
  CAPTURE(how);
  const double close = dtype == Dtype::f32 ? 1e-6 : 1e-13;
  const Tensor p = lying(shape, 1, dtype, how_p), g = lying(shape, 2, dtype, how),
               m = lying(shape, 3, dtype, how), v = square(lying(shape, 4, dtype, how));
  const auto ps = p.values(), gs = g.values(), ms = m.values(), vs = v.values();
  std::vector<double> p_to, m_to, v_to;
  for (size_t i = 0; i < ps.size(); ++i) {
    m_to.push_back(0.9 * ms[i] + 0.1 * gs[i]);
    v_to.push_back(0.95 * vs[i] + 0.05 * gs[i] * gs[i]);
    p_to.push_back(0.99 * ps[i] - 0.01 * m_to[i] / (std::sqrt(v_to[i]) * 1.5 + 1e-3));
  }
  // The first time others hold what is updated; then nobody does, and the bits are the same.
  Tensor new_p = p, new_m = m, new_v = v;
  std::vector<std::vector<double>> found;
  for (const bool is_held : {true, false}) {
    if (!is_held) new_p = own_copy(p), new_m = own_copy(m), new_v = own_copy(v);
    std::vector<const void*> memory;
    std::vector<bool> stays;
    for (const Tensor* x : {&new_p, &new_m, &new_v}) {
      memory.push_back(x->view().data);
      stays.push_back(!is_held && x->strides() == Tensor::empty_like(p).strides());
    }
    adam_update(new_p, g, new_m, new_v, {0.9, 0.95, 0.99, 0.01, 1.5, 1e-3});
    CHECK(largest_difference(new_p, p_to) < close);
    CHECK(largest_difference(new_m, m_to) < close);
    CHECK(largest_difference(new_v, v_to) < close);
    for (size_t i = 0; i < 3; ++i) {
      const Tensor& x = *std::array{&new_p, &new_m, &new_v}[i];
      CHECK((x.view().data == memory[i]) == stays[i]);
      CHECK(x.strides() == Tensor::empty_like(p).strides());
      found.push_back(x.values());
    }
    CHECK((p.values() == ps));
    CHECK((m.values() == ms));
    CHECK((v.values() == vs));
  }
  for (size_t i = 0; i < 3; ++i) CHECK((found[i] == found[i + 3]));

  const bool matrix = p.rank() == 2;
  const Tensor a = broadcast(random_normal(matrix ? Shape{shape[0], 1} : shape, Key(5), dtype),
                             shape),
               b = broadcast(random_normal(matrix ? Shape{1, shape[1]} : shape, Key(6), dtype),
                             shape);
  for (const auto& [x, y] : {std::pair{a, b}, {b, a}, {g, m}}) {
    const auto xs = x.values(), ys = y.values();
    std::vector<double> expected;
    double squares = 0;
    for (size_t i = 0; i < ps.size(); ++i) {
      const double u = gs[i] * xs[i] * ys[i];
      squares += u * u;
      expected.push_back(ps[i] - 0.3 * u);
    }
    CHECK(sum_of_squares_of_product(g, x, y).item() == doctest::Approx(squares).epsilon(close));
    const UpdatedParameter moved = minus_product(p, g, x, y, number(0.3));
    CHECK(largest_difference(moved.p, expected) < close);
    CHECK(moved.squares.item() == doctest::Approx(plain_squares(expected)).epsilon(close));
    const Tensor again = sum_of_squares_of_product(moved.p, ones_like(x), ones_like(y));
    CHECK(moved.squares.item() == again.item());
    if (how_p < 2 && p.size() > 1) CHECK(moved.p.strides() == p.strides());
  }
}

// The elements' squares, averaged over one dimension, in plain loops.
std::vector<double> plain_means(const Tensor& g, int dim) {
  Index inside = 1;
  for (int i = dim + 1; i < g.rank(); ++i) inside *= g.size(i);
  const Index size = g.size(dim), all = g.size();
  std::vector<double> means(static_cast<size_t>(size == 0 ? 0 : all / size));
  const std::vector<double> gs = g.values();
  for (Index i = 0; i < all; ++i)
    means[i / (inside * size) * inside + i % inside] += gs[i] * gs[i] / static_cast<double>(size);
  return means;
}

void check_means(const Tensor& g) {
  CAPTURE(g.shape());
  CAPTURE(Shape(g.strides()));
  const double close = g.dtype() == Dtype::f32 ? 2e-6 : 1e-13;
  for (int d0 = 0; d0 < g.rank(); ++d0)
    for (int d1 = 0; d1 < g.rank(); ++d1) {
      if (d0 == d1) continue;
      CAPTURE(d0);
      CAPTURE(d1);
      const MeanSquares means = mean_squares(g, d0, d1);
      Shape over_d0 = g.shape(), over_d1 = g.shape();
      over_d0[d0] = over_d1[d1] = 1;
      CHECK(means.over_d0.shape() == over_d0);
      CHECK(means.over_d1.shape() == over_d1);
      CHECK(largest_difference(means.over_d0, plain_means(g, d0)) < close);
      CHECK(largest_difference(means.over_d1, plain_means(g, d1)) < close);
    }
}

// Every instruction set that the machine has.
template <class Body>
void with_every_instruction_set(const Body& body) {
  for (const char* set : {"v2", "v3", "v4", "generic"}) {
    const std::string before = cpu_kernels::instruction_set();
    if (!cpu_kernels::use_instruction_set(set)) continue;
    CAPTURE(std::string(set));
    body();
    cpu_kernels::use_instruction_set(before.c_str());
  }
}

}  // namespace

TEST_CASE("cpu: updates of parameters are their formulas, with every instruction set") {
  with_every_instruction_set([] {
    for (Dtype dtype : {Dtype::f32, Dtype::f64})
      for (int how_p : {0, 1, 2})
        for (int how : {0, 1, 2})
          for (const Shape& shape : {Shape{7, 33}, Shape{1, 1}, Shape{129, 3}, Shape{0, 5},
                                     Shape{71}, Shape{4099}, Shape{}})
            check_updates(shape, dtype, how_p, how);
    check_updates({17, 131'000}, Dtype::f32, 0, 0);  // past the caches, and rows in pieces
  });
}

TEST_CASE("cpu: mean squares are their formula, however a gradient lies") {
  with_every_instruction_set([] {
    for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
      for (const Shape& shape : {Shape{7, 33}, Shape{1, 1}, Shape{131, 3}, Shape{131, 257},
                                 Shape{3, 67, 130}, Shape{2, 1, 3, 5}, Shape{67, 4101}}) {
        const Tensor g = random_normal(shape, Key(1), dtype);
        check_means(g);
        Short<int> order;
        for (int i = g.rank() - 1; i >= 0; --i) order.push_back(i);
        check_means(with_layout(g, order));
        order[0] = 0, order[g.rank() - 1] = g.rank() - 1;
        check_means(with_layout(g, order));
        check_means(lying(shape, 2, dtype, 2));
        check_means(broadcast(random_normal(Shape(shape.size(), 1), Key(3), dtype), shape));
      }
    }
  });
  CHECK(mean_squares(Tensor::ones({0, 5}), 0, 1).over_d1.size() == 0);
  CHECK(std::isnan(mean_squares(Tensor::ones({0, 5}), 0, 1).over_d0.values()[4]));
  CHECK(std::isnan(mean_squares(Tensor::ones({5, 0}), 0, 1).over_d1.values()[4]));
}

TEST_CASE("cpu: a sum of squares is added in float64, however a tensor lies") {
  with_every_instruction_set([] {
    for (Dtype dtype : {Dtype::f32, Dtype::f64})
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{4096}, Shape{4097},
                                 Shape{300, 301}, Shape{3, 0, 2}, Shape{5, 7, 11}}) {
        CAPTURE(shape);
        for (int how : {0, 1, 2}) {
          const Tensor x = lying(shape, 1, dtype, how);
          CHECK(sum_of_squares(x) == doctest::Approx(plain_squares(x.values())).epsilon(1e-13));
        }
        const Tensor repeated = Tensor::repeated(3, shape, dtype);
        CHECK(sum_of_squares(repeated) == 9.0 * static_cast<double>(repeated.size()));
      }
    // A float's square need not be a float.
    CHECK(sum_of_squares(Tensor::of<float>({2}, {1e30f, 1e-30f})) ==
          doctest::Approx(1e60).epsilon(1e-6));
  });
}

TEST_CASE("sums of squares have the same bits on one thread and on two") {
  const Tensor g = random_normal({389, 4201}, Key(1)), line = random_normal({300'007}, Key(2));
  const Tensor a = broadcast(random_normal({389, 1}, Key(3)), g.shape()),
               b = broadcast(random_normal({1, 4201}, Key(4)), g.shape());
  const int before = threads();
  std::vector<std::vector<double>> found;
  for (int count : {1, 2}) {
    set_threads(count);
    const MeanSquares means = mean_squares(g, 0, 1);
    const UpdatedParameter moved = minus_product(g, g, a, b, number(0.1));
    std::vector<double> all = means.over_d0.values();
    for (double x : means.over_d1.values()) all.push_back(x);
    for (double x : {sum_of_squares(g), sum_of_squares(line),
                     sum_of_squares_of_product(g, a, b).item(), moved.squares.item()})
      all.push_back(x);
    found.push_back(std::move(all));
  }
  set_threads(before);
  CHECK(found[0] == found[1]);
}

TEST_CASE("a graph keeps the numbers of what is updated later") {
  const Tensor w = Tensor::ones({3}).variable();
  Tensor p = w * 2, m = Tensor::zeros({3}), v = Tensor::zeros({3});
  const Tensor y = sum(square(p));
  adam_update(p, Tensor::ones({3}), m, v, {0.9, 0.99, 1, 0.5, 1, 1e-8});
  CHECK(!p.tracked());
  CHECK(p.values()[0] < 2);
  CHECK(grad(y, Tensors{w})[0].values() == std::vector<double>{8, 8, 8});
  Tensor leaf = Tensor::ones({3}).variable();  // nothing else holds it
  adam_update(leaf, Tensor::ones({3}), m, v, {0.9, 0.99, 1, 0.5, 1, 1e-8});
  CHECK(!leaf.tracked());
}

TEST_CASE("an update leaves the rest of a memory alone that others hold") {
  const Tensor memory = Tensor::full({9}, 4);
  Tensor p = memory.window({3}, {1}, 0), m = memory.window({3}, {1}, 3),
         v = memory.window({3}, {1}, 6);
  adam_update(p, Tensor::ones({3}), m, v, {0.9, 0.99, 1, 0.5, 1, 1e-8});
  CHECK(p.values()[0] < 4);
  CHECK(memory.values() == std::vector<double>(9, 4));
}

TEST_CASE("what an update is given has one shape and type") {
  const Tensor p = Tensor::ones({2, 3}), other = Tensor::ones({3, 2});
  Tensor value = p, m = p, v = p;
  CHECK_THROWS_WITH(adam_update(value, other, m, v, {}),
                    "Adam: expected tensors of one shape and type, got f32[2, 3] and f32[3, 2]");
  CHECK_THROWS_WITH(adam_update(value, p, m, m, {}),
                    "Adam: expected p, g, m and v as four tensors, got one for two of them");
  CHECK_THROWS_WITH(adam_update(value, value, m, v, {}),
                    "Adam: expected p, g, m and v as four tensors, got one for two of them");
  CHECK_THROWS(sum_of_squares_of_product(p, p, other));
  CHECK_THROWS(minus_product(p, p, p, Tensor::ones({2, 3}, Dtype::f64), number(1)));
}
