#include "tools/bench/measure.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "core/clock.hpp"

namespace tete {

// A turn of what is short. Longer than the time slices of other processes.
static constexpr double least_seconds = 0.05;

double Timing::quantile(double part) const {
  if (seconds_.empty()) return 0;
  std::vector<double> sorted = seconds_;
  std::sort(sorted.begin(), sorted.end());
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double seconds_of(const std::function<void()>& call) {
  const double start = seconds_now();
  call();
  return seconds_now() - start;
}

Turn turn_of(std::function<void()> call, std::function<void()> finish) {
  call(), finish();
  const auto several = [=](long calls) {
    return seconds_of([&] {
      for (long i = 0; i < calls; ++i) call();
      finish();
    });
  };
  long calls = 1;
  for (double seconds; (seconds = several(calls)) < least_seconds;) {
    const double more = std::min(100.0, 1.1 * least_seconds / std::max(1e-9, seconds));
    calls = std::max(2 * calls, static_cast<long>(more * static_cast<double>(calls)));
  }
  return [=] {
    if (calls == 1) return several(1);
    call(), finish();  // others had the caches
    return several(calls) / static_cast<double>(calls);
  };
}

std::vector<Timing> in_turns(const std::vector<Turn>& turns, int repeats) {
  std::vector<Timing> timings(turns.size());
  for (int repeat = 0; repeat < repeats; ++repeat)
    for (size_t i = 0; i < turns.size(); ++i) timings[i].add(turns[i]());
  return timings;
}

// A turn counts beside a peak of at least this part of the best.
static constexpr double near_best = 0.93;

SteadyTurns in_steady_turns(const std::vector<Turn>& turns, const Turn& peak, int repeats) {
  struct Round {
    std::vector<double> seconds;
    double before, after;  // of the peak
    double slower() const { return std::max(before, after); }
  };
  std::vector<Round> rounds;
  double best = INFINITY;
  const auto counts = [&](const Round& round) { return near_best * round.slower() <= best; };
  const auto counted = [&] { return std::count_if(rounds.begin(), rounds.end(), counts); };
  while (counted() < repeats && std::ssize(rounds) < 3 * repeats - 2) {
    Round round;
    for (const Turn& turn : turns) {
      if (&turn == &turns.back()) round.before = peak();
      round.seconds.push_back(turn());
    }
    round.after = peak();
    best = std::min({best, round.before, round.after});
    rounds.push_back(std::move(round));
  }
  SteadyTurns steady{std::vector<Timing>(turns.size()), {}};
  const bool none = counted() == 0;
  for (const Round& round : rounds) {
    if (!none && !counts(round)) {
      ++steady.dropped;
      continue;
    }
    for (size_t i = 0; i < turns.size(); ++i) steady.turns[i].add(round.seconds[i]);
    steady.peak.add(round.before), steady.peak.add(round.after);
  }
  return steady;
}

size_t peak_resident() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<size_t>(use.ru_maxrss) * 1024;
}

}  // namespace tete
