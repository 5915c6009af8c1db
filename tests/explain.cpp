// Rehearsals, and what `tete einsum --explain` says of an einsum before it runs.
#include "tools/einsum/explain.hpp"

#include <doctest/doctest.h>

#include "core/plan.hpp"

using namespace tete;

namespace {

Tensor zeros(const Shape& shape, Dtype dtype = Dtype::f32) { return Tensor::zeros(shape, dtype); }

// The form of the only step of an einsum's value.
std::string form_of(const char* pattern, const Tensors& operands) {
  const auto plans = explain_einsum(Pattern::parse(pattern), operands);
  REQUIRE(plans[0].steps.size() == 1);
  return plans[0].steps[0].call.form;
}

// Bytes that are really held at once, the operands included.
size_t peak_of(const std::function<void()>& run, const Tensors& operands) {
  reset_peak_memory();
  const size_t before = memory_use().live;
  run();
  size_t held = memory_use().peak - before;
  for (const Tensor& x : operands) held += static_cast<size_t>(x.size()) * size_of(x.dtype());
  return held;
}

}  // namespace

TEST_SUITE("explain") {
  TEST_CASE("what a contraction becomes follows from its sizes") {
    struct Row {
      const char* pattern;
      std::vector<Shape> shapes;
      const char* form;
    };
    const Row rows[] = {
        {"i,i->", {{64}, {64}}, "dot"},
        {"ij,j->i", {{64, 32}, {32}}, "gemv"},
        {"i,j->ij", {{64}, {32}}, "ger"},
        {"ij,ij->ij", {{64, 32}, {64, 32}}, "elementwise"},
        {"ij,jk->ik", {{64, 32}, {32, 48}}, "gemm"},
        {"ij,kj->ki", {{64, 32}, {48, 32}}, "gemm"},
        {"bij,bjk->bik", {{5, 64, 32}, {5, 32, 48}}, "batched gemm"},
        {"ij,jk->ik", {{64, 4}, {4, 48}}, "loop"},              // K ≤ 4 never goes to GEMM
        {"ij,jk->ik", {{1, 32}, {32, 1}}, "dot"},               // nor M = N = 1
        {"bij,bjk->bik", {{5, 1, 32}, {5, 32, 1}}, "dot"},      //
        {"ij,jk->ik", {{64, 1}, {1, 48}}, "ger"},               // a sum of one is none
        {"hx,hg->gx", {{8, 512}, {8, 8}}, "gemm"},              // a small matrix on long rows
        {"ij,jk->ik", {{64, 0}, {0, 48}}, "zeros"},             //
        {"ij->i", {{64, 32}}, "reduce"},                        //
        {"ijk,ijl->kl", {{16, 16, 40}, {16, 16, 48}}, "gemm"},  // two names step on as one
    };
    for (const Row& row : rows) {
      CAPTURE(std::string(row.pattern));
      Tensors operands;
      for (const Shape& shape : row.shapes) operands.push_back(zeros(shape));
      CHECK(form_of(row.pattern, operands) == std::string(row.form));
    }
  }

  TEST_CASE("nothing is copied that a leading dimension or a transpose can say") {
    const auto copies = [](const char* pattern, const Tensors& operands) {
      size_t count = 0;
      for (const EinsumPlan& plan : explain_einsum(Pattern::parse(pattern), operands))
        for (const EinsumPlan::Step& step : plan.steps) {
          count += step.call.copies.size();
          count += step.call.form == "copy";
        }
      return count;
    };
    const Tensor X = zeros({64, 48}), P = zeros({48, 32});
    CHECK(copies("n d, d k -> n k", {X, P}) == 0);
    CHECK(copies("n d, d k -> k n", {X, P}) == 0);
    CHECK(copies("d n, d k -> n k", {permute(X, {1, 0}), P}) == 0);
    CHECK(copies("n d, d k -> n k", {X.window({20, 48}, {96, 1}), P}) == 0);  // every other row
    CHECK(copies("n d, d k h -> n k h", {X, zeros({48, 8, 4})}) == 0);
    CHECK(copies("b n d, d k -> b n k", {zeros({3, 64, 48}), P}) == 0);
    CHECK(copies("b h n k, b h m k -> b h n m", {zeros({2, 4, 32, 16}), zeros({2, 4, 32, 16})}) ==
          0);
    // Heads inside: neither side of a head's matrix has stride 1.
    CHECK(copies("n k h, m k h -> h n m", {zeros({64, 32, 8}), zeros({64, 32, 8})}) > 0);
  }

  TEST_CASE("every copy has a reason and its bytes") {
    const auto plans =
        explain_einsum(Pattern("n k h, m k h -> h n m"), {zeros({64, 32, 8}), zeros({64, 32, 8})});
    const KernelCall& call = plans[0].steps[0].call;
    REQUIRE(call.copies.size() == 2);
    CHECK(call.copies[0].bytes == 64 * 32 * 8 * sizeof(float));
    CHECK(call.copies[0].why == "no leading dimension or transpose says how it lies");
    CHECK(plans[0].steps[0].what == "A[n k h], B[m k h] -> Y[h n m]");
    CHECK(call.shape == "8 products of 64×32×64");
    CHECK(call.multiplies == 8 * 64 * 32 * 64);
  }

  TEST_CASE("planned peak memory is what is then used") {
    struct Row {
      const char* pattern;
      std::vector<Shape> shapes;
    };
    const Row rows[] = {
        {"n d, d k -> n k", {{300, 200}, {200, 100}}},
        {"n d, d k h, m k h -> n m h", {{100, 64}, {64, 16, 4}, {100, 16, 4}}},
        {"n d, d k h, m k h, h g, m g -> n g",
         {{90, 64}, {64, 16, 4}, {70, 16, 4}, {4, 6}, {70, 6}}},
        {"b n n, b m n -> m", {{3, 50, 50}, {3, 40, 50}}},
        {"... i j, ... j k", {{4, 5, 30, 20}, {4, 5, 20, 30}}},
        {"n (h k), m (h k), h -> n m", {{60, 64}, {50, 64}, {8}}},
        {"a b c -> c", {{40, 50, 60}}},
        {"a, b, c -> a b c", {{40}, {50}, {60}}},
    };
    for (const Row& row : rows) {
      CAPTURE(std::string(row.pattern));
      const Pattern pattern = Pattern::parse(row.pattern);
      Tensors operands;
      for (const Shape& shape : row.shapes) operands.push_back(zeros(shape));
      const auto plans = explain_einsum(pattern, operands);
      const size_t used = peak_of([&] { einsum(pattern, operands); }, operands);
      CHECK(static_cast<double>(plans[0].peak_bytes) == doctest::Approx(used).epsilon(0.05));
      for (size_t i = 0; i < operands.size(); ++i) {
        CAPTURE(i);
        Tensors tracked = operands;
        tracked[i] = operands[i].variable();
        const Tensor g = Tensor::zeros(einsum(pattern, operands).shape());
        Tensors held = operands;
        held.push_back(g);
        const auto both = [&] {
          grad(einsum(pattern, tracked), Tensors{tracked[i]}, {.cotangent = g});
        };
        CHECK(static_cast<double>(plans[i + 1].peak_bytes) ==
              doctest::Approx(peak_of(both, held)).epsilon(0.05));
      }
    }
  }

  TEST_CASE("a plan's multiplies are those of its steps, and the naive cost that of one loop") {
    const auto plans = explain_einsum(Pattern("n d, d k h, m k h -> n m h"),
                                      {zeros({100, 64}), zeros({64, 16, 4}), zeros({100, 16, 4})});
    CHECK(plans.size() == 4);
    CHECK(plans[0].multiplies == 100. * 64 * 16 * 4 + 100. * 100 * 16 * 4);
    CHECK(plans[0].naive_multiplies == 100. * 64 * 16 * 4 * 100);
    CHECK(plans[2].of == "gradient of B");
    CHECK(plans[2].steps.back().call.operands.back().name == "dB");
  }

  TEST_CASE("intermediate results stay within the memory limit, or the einsum is refused") {
    // The cheap order goes through a b c (8·9·10), the other through c d (10·11).
    const Pattern pattern("a b, b c, c d -> a d");
    const Tensors operands = {zeros({50, 2}), zeros({2, 50}), zeros({50, 3})};
    const auto largest = [&](size_t limit) {
      Index size = 0;
      const auto plans = explain_einsum(pattern, operands, {.memory_limit = limit});
      for (const auto& step : plans[0].steps)
        if (step.call.operands.back().name != "Y")
          size = std::max(size, element_count(step.call.operands.back().shape));
      return static_cast<size_t>(size) * sizeof(float);
    };
    CHECK(largest(SIZE_MAX) == 2 * 3 * sizeof(float));
    std::vector<Labels> triangle = {{0, 1}, {1, 2}, {2, 0}, {0, 3}};
    Sizes sizes;
    sizes.fill(10);
    CHECK_THROWS_WITH_AS(
        plan(triangle, {3}, sizes, 5),
        "einsum: every order of these 4 operands that was tried has an intermediate result of more "
        "than the 5 elements that the memory limit allows",
        Error);
    CHECK(plan(triangle, {3}, sizes, 100).steps.size() == 3);
    CHECK_THROWS_AS(einsum(pattern, operands, {.memory_limit = 8}), Error);
  }

  TEST_CASE("plans are made once for one pattern and sizes") {
    Sizes sizes;
    sizes.fill(3);
    const std::vector<Labels> chain = {{0, 1}, {1, 2}, {2, 3}};
    const auto first = cached_plan(chain, {0, 3}, sizes);
    CHECK(cached_plan(chain, {0, 3}, sizes) == first);
    CHECK(cached_plan(chain, {3, 0}, sizes) != first);
    sizes[2] = 4;
    CHECK(cached_plan(chain, {0, 3}, sizes) != first);
    CHECK(cached_plan(chain, {0, 3}, sizes, 12) != cached_plan(chain, {0, 3}, sizes));
  }

  TEST_CASE("sixteen operands are planned well below the naive cost") {
    std::vector<Labels> chain;
    Sizes sizes;
    for (int i = 0; i < max_operands; ++i) {
      chain.push_back({static_cast<Label>(i), static_cast<Label>(i + 1)});
      sizes[i] = 2 + i * 7 % 5;
    }
    sizes[max_operands] = 3;
    // A chain of matrices: the classic dynamic programme over intervals is exact.
    double cost[max_operands + 1][max_operands + 1] = {};
    for (int length = 2; length <= max_operands; ++length)
      for (int i = 0; i + length <= max_operands; ++i) {
        const int j = i + length;
        cost[i][j] = 1e300;
        for (int k = i + 1; k < j; ++k)
          cost[i][j] =
              std::min(cost[i][j], cost[i][k] + cost[k][j] +
                                       static_cast<double>(sizes[i] * sizes[k] * sizes[j]));
      }
    const Plan made = plan(chain, {0, static_cast<Label>(max_operands)}, sizes);
    CHECK(made.steps.size() == max_operands - 1);
    CHECK(made.multiplies <= 1.25 * cost[0][max_operands]);
  }

  TEST_CASE("a rehearsal notes kernels, computes nothing and has no numbers") {
    Rehearsal rehearsal;
    const Tensor x = rehearsal.tensor({1 << 20, 1 << 20}, Dtype::f32, "x");  // 4 TiB
    const Tensor y = softmax(tanh(x), 1);
    CHECK(y.shape() == x.shape());
    CHECK(rehearsal.calls().size() > 3);
    CHECK(rehearsal.calls()[0].form == "elementwise");
    CHECK(rehearsal.calls()[0].operands[0].name == "x");
    CHECK(rehearsal.peak_bytes() >= size_t{3} << 42);
    CHECK_THROWS_WITH_AS(rehearsal.tensor({3}, Dtype::f32, "z").values(),
                         "a rehearsal has shapes and no numbers to read", Error);
  }
}
