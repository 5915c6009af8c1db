// Measuring, without a clock: turns say what they took, and kernels are counted.
#include <doctest/doctest.h>

#include "core/ops.hpp"
#include "core/random.hpp"
#include "core/threads.hpp"
#include "tools/bench/clocked.hpp"
#include "tools/bench/measure.hpp"

using namespace tete;

namespace {

// A turn that takes these seconds, one after the other.
Turn turn_that_takes(std::vector<double> seconds) {
  return [seconds, next = size_t{0}]() mutable { return seconds.at(next++); };
}

}  // namespace

TEST_SUITE("bench") {
  TEST_CASE("turns count where the processor's peak was near its best before and after") {
    const auto steady = [](std::vector<double> peak, std::vector<double> work, int repeats) {
      return in_steady_turns(
          {turn_that_takes(std::vector<double>(work.size(), 1)), turn_that_takes(std::move(work))},
          turn_that_takes(std::move(peak)), repeats);
    };
    // Slow before the second, and after the third; the fourth makes up for one of them.
    const SteadyTurns some = steady({1, 1.05, 2, 1, 1, 2, 1, 1, 1, 1}, {10, 20, 21, 11, 12}, 3);
    CHECK(some.dropped == 2);
    CHECK(some.turns[0].turns() == 3);
    CHECK(some.turns[1].min() == 10);
    CHECK(some.turns[1].quantile(1) == 12);
    CHECK(some.peak.turns() == 6);
    CHECK(some.peak.quantile(1) == 1.05);
    // The first was slow, as a later one shows.
    const SteadyTurns late = steady({1, 1, 0.9, 0.9, 0.9, 0.9}, {20, 10, 11}, 2);
    CHECK(late.dropped == 1);
    CHECK(late.turns[1].quantile(1) == 11);
    // Never at its best twice in a row: more are tried, and all count.
    const SteadyTurns none = steady({1, 2, 1, 2, 1, 2, 1, 2}, {5, 6, 7, 8}, 2);
    CHECK(none.dropped == 0);
    CHECK(none.turns[1].turns() == 4);
    CHECK(steady({1, 2}, {5}, 1).turns[1].turns() == 1);
  }

  TEST_CASE("the clocked processor computes the same bits, and counts every kernel") {
    const Tensor X = random_normal({2, 40, 24}, Key(1)), P = random_normal({24, 24}, Key(2));
    const auto f = [](const Tensor& x, const Tensor& p) {
      const Tensor Y = softmax("b n [d]", einsum("b n d, d e -> b n e", gelu(x), p));
      return layer_norm(Y + x, Tensor::ones({24}, Dtype::f32, x.backend()),
                        Tensor::zeros({24}, Dtype::f32, x.backend()));
    };
    ClockedProcessor device;
    const Tensor there = X.to(device), p_there = P.to(device);
    device.forget();
    CHECK(f(there, p_there).values() == f(X, P).values());
    const ClockedProcessor::Uses uses = device.uses();
    CHECK(uses.at("contraction: gemm").calls == 1);
    CHECK(uses.at("softmax").calls == 1);
    CHECK(uses.at("norms").calls == 1);
    CHECK(uses.at("elementwise").calls >= 1);
    double all = 0;
    for (const auto& [kernel, use] : uses) all += use.seconds;
    CHECK(all > 0);
    CHECK(device.clocking() > 0);
    device.forget();
    CHECK(device.uses().empty());
  }

  TEST_CASE("kernels of all threads are counted") {
    ClockedProcessor device;
    const Tensor x = Tensor::ones({8}, Dtype::f32, device);
    device.forget();
    parallel_for(100, 1e9, [&](Index) { x + x; });
    CHECK(device.uses().at("elementwise").calls == 100);
  }
}
