// The one-pass updates of parameters, held to their formulas in double.
#include "core/update.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/cpu/rows.hpp"
#include "core/ops.hpp"
#include "core/random.hpp"

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
  const auto [new_p, new_m, new_v] = adam_update(p, g, m, v, {0.9, 0.95, 0.99, 0.01, 1.5, 1e-3});
  CHECK(largest_difference(new_p, p_to) < close);
  CHECK(largest_difference(new_m, m_to) < close);
  CHECK(largest_difference(new_v, v_to) < close);

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
    CHECK(sum_of_squares_of_product(g, x, y) == doctest::Approx(squares).epsilon(close));
    const Tensor moved = minus_product(p, g, x, y, 0.3);
    CHECK(largest_difference(moved, expected) < close);
    if (how_p < 2 && p.size() > 1) CHECK(moved.strides() == p.strides());
  }
}

}  // namespace

TEST_CASE("cpu: updates of parameters are their formulas, with every instruction set") {
  for (const char* set : {"v2", "v3", "v4", "generic"}) {
    const std::string before = cpu_kernels::instruction_set();
    if (!cpu_kernels::use_instruction_set(set)) continue;
    CAPTURE(std::string(set));
    for (Dtype dtype : {Dtype::f32, Dtype::f64})
      for (int how_p : {0, 1, 2})
        for (int how : {0, 1, 2})
          for (const Shape& shape :
               {Shape{7, 33}, Shape{1, 1}, Shape{129, 3}, Shape{0, 5}, Shape{71}, Shape{}})
            check_updates(shape, dtype, how_p, how);
    check_updates({17, 131'000}, Dtype::f32, 0, 0);  // past the caches, and rows in pieces
    cpu_kernels::use_instruction_set(before.c_str());
  }
}

TEST_CASE("what an update is given has one shape and type") {
  const Tensor p = Tensor::ones({2, 3}), other = Tensor::ones({3, 2});
  CHECK_THROWS_WITH(adam_update(p, other, p, p, {}),
                    "Adam: expected tensors of one shape and type, got f32[2, 3] and f32[3, 2]");
  CHECK_THROWS(sum_of_squares_of_product(p, p, other));
  CHECK_THROWS(minus_product(p, p, p, Tensor::ones({2, 3}, Dtype::f64), 1));
}
