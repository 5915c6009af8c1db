// How training is expected to scale: the α–β model. With N parameters, t tokens a rank and step and
// F operations a second: a rank computes for T = 6Nt/F; its messages take log₂P·α a bucket and
// phase ((P-1)·α where P is no power of two), and their bytes by B: k·(P-1)/P·4N for the sums of
// shards, (P-1)/P·4N for what comes back.
// The first hide under the backward pass, two thirds of T, but for the last bucket; what comes
// back, under the next forward pass, but for the first bucket. The slowest of P ranks, whose steps
// differ by σ, is σ√(2 ln P)·T late.
#pragma once
#include <cstdint>

namespace tete {

struct LinkRates {
  double latency = 0;    // seconds, α
  double bandwidth = 0;  // bytes a second, B
  double jitter = 0;     // σ, of a rank's compute time by its mean
};

struct ScalingModel {
  double parameters = 0, tokens = 0, rate = 0;  // N; t; F, products and sums each one operation
  LinkRates link = {};
};

struct StepForecast {
  double compute = 0, exchange = 0, exposed = 0, late = 0;  // seconds of a step
  double weak_efficiency = 0;  // the part of a step in which a rank computes, with t tokens each
  double strong_speedup = 0;   // against one rank, with 128 t tokens a step divided among all
};
StepForecast predict(const ScalingModel& model, int ranks);

// Seconds that gradients take to be added on so many ranks, each with one node of the tree.
double exchange_seconds(double parameters, const LinkRates& link, int ranks);

}  // namespace tete
