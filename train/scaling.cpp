#include "train/scaling.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "train/tree.hpp"

namespace tete {

namespace {

// How gradients are added: nodes of the tree that a rank has, on average, and steps of a bucket and
// phase.
struct Way {
  double nodes, steps;
};
Way way(int ranks, int shards) {
  const TreeOrder order = tree_order(ranks, shards);
  return {static_cast<double>(order.nodes.size()) / ranks,
          order.is_perfect(ranks) ? std::log2(ranks) : ranks - 1.0};
}
int shards_for(int ranks) {
  return ranks <= 24 ? 24 : static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)));
}

// The last scatter and the first gather cannot be hidden.
struct Phases {
  double scatter = 0, gather = 0, last_scatter = 0, first_gather = 0;
};
Phases phases(double parameters, const LinkRates& link, int ranks, const Way& way) {
  const double bytes = 4 * parameters, part = (ranks - 1.0) / ranks;
  const double bucket =
      4.0 * static_cast<double>(bucket_size(static_cast<Index>(parameters), ranks));
  const double buckets = std::ceil(bytes / bucket), latency = way.steps * link.latency;
  const auto seconds = [&](double count, double sent) {
    return count * latency + part * sent / link.bandwidth;
  };
  return {seconds(buckets, way.nodes * bytes), seconds(buckets, bytes),
          seconds(1, way.nodes * std::min(bytes, bucket)), seconds(1, std::min(bytes, bucket))};
}

// Seconds of a step in which a rank has so many tokens.
StepForecast step_of(const ScalingModel& m, double tokens, int ranks) {
  StepForecast s;
  s.compute = 6 * m.parameters * tokens / m.rate;
  if (ranks == 1) return s;
  const Phases p = phases(m.parameters, m.link, ranks, way(ranks, shards_for(ranks)));
  s.exchange = p.scatter + p.gather;
  s.exposed = std::max(p.last_scatter, p.scatter - s.compute * 2 / 3) +
              std::max(p.first_gather, p.gather - s.compute / 3);
  s.late = m.link.jitter * std::sqrt(2 * std::log(ranks)) * s.compute;
  return s;
}

double total(const StepForecast& s) { return s.compute + s.exposed + s.late; }

}  // namespace

double exchange_seconds(double parameters, const LinkRates& link, int ranks) {
  if (ranks == 1) return 0;
  const Phases p = phases(parameters, link, ranks, way(ranks, ranks));
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
