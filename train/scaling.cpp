#include "train/scaling.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "train/tree.hpp"

namespace tete {

namespace {

constexpr double bucket = 25e6;  // bytes, as in train/gradient_exchange.cpp

// Nodes of the tree that a rank has, on average.
double nodes_a_rank(int ranks) {
  const int shards =
      ranks <= 24 ? 24 : static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)));
  return static_cast<double>(tree_order(ranks, shards).nodes.size()) / ranks;
}

struct Phases {
  double scatter = 0, gather = 0, last_bucket = 0;
};
Phases phases(double parameters, const LinkRates& link, int ranks, double nodes) {
  const double bytes = 4 * parameters, part = (ranks - 1.0) / ranks;
  const double buckets = std::ceil(bytes / bucket), latency = (ranks - 1) * link.latency;
  const auto seconds = [&](double count, double sent) {
    return count * latency + part * sent / link.bandwidth;
  };
  return {seconds(buckets, nodes * bytes), seconds(buckets, bytes),
          seconds(1, nodes * std::min(bytes, bucket))};
}

// Seconds of a step in which a rank has so many tokens.
StepForecast step_of(const ScalingModel& m, double tokens, int ranks) {
  StepForecast s;
  s.compute = 6 * m.parameters * tokens / m.rate;
  if (ranks == 1) return s;
  const Phases p = phases(m.parameters, m.link, ranks, nodes_a_rank(ranks));
  s.exchange = p.scatter + p.gather;
  s.exposed = std::max(p.last_bucket, p.scatter - s.compute * 2 / 3) + p.gather;
  s.late = m.link.jitter * std::sqrt(2 * std::log(ranks)) * s.compute;
  return s;
}

double total(const StepForecast& s) { return s.compute + s.exposed + s.late; }

}  // namespace

double exchange_seconds(double parameters, const LinkRates& link, int ranks) {
  if (ranks == 1) return 0;
  const Phases p = phases(parameters, link, ranks, 1);
  return p.scatter + p.gather;
}

StepForecast predict(const ScalingModel& m, int ranks) {
  StepForecast s = step_of(m, m.tokens, ranks);
  s.weak_efficiency = s.compute / total(s);
  // A job of 128 ranks' tokens, divided.
  const double all = 128 * m.tokens;
  s.strong_speedup = total(step_of(m, all, 1)) / total(step_of(m, all / ranks, ranks));
  return s;
}

}  // namespace tete
