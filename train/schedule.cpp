// The table of schedules; s = 0, 1, … T-1 is the step.
#include "train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace tete {

namespace {

// T5's (spec D2). A run shorter than `start` has a constant rate of 0.01, then falls to zero.
double inverse_sqrt(const Schedule& schedule, int64_t s) {
  const double T = static_cast<double>(schedule.steps);
  const double constant_start = static_cast<double>(std::max(s, schedule.start));
  const double decay = schedule.decay * T;
  const double last_part =
      decay > 0 ? std::clamp((T - static_cast<double>(s)) / decay, 0.0, 1.0) : 1.0;
  return schedule.rate / std::sqrt(std::max(1.0, constant_start)) * last_part;
}

double constant(const Schedule& schedule, int64_t) { return schedule.rate; }

// nanoGPT's: linear up to `rate`, then half a cosine down to `last_rate`.
double cosine(const Schedule& schedule, int64_t s) {
  const double warm_up = static_cast<double>(schedule.start);
  if (s < schedule.start) return schedule.rate * static_cast<double>(s + 1) / (warm_up + 1);
  const double length = static_cast<double>(std::max<int64_t>(1, schedule.steps - schedule.start));
  const double part = std::min(1.0, (static_cast<double>(s) - warm_up) / length);
  const double height = 0.5 * (1 + std::cos(std::numbers::pi * part));
  return schedule.last_rate + height * (schedule.rate - schedule.last_rate);
}

}  // namespace

const std::vector<ScheduleRow>& schedules() {
  static const std::vector<ScheduleRow> rows = {
      {"inverse_sqrt",
       "rate / sqrt(max(s, start)), linear to zero in the last 10% of the run",
       {.name = "inverse_sqrt", .rate = 1, .start = 10000, .decay = 0.1},
       inverse_sqrt},
      {"constant", "rate", {.name = "constant", .rate = 1e-3, .start = 0, .decay = 0}, constant},
      {"cosine",
       "linear to rate in the first steps, then half a cosine to last_rate",
       {.name = "cosine", .rate = 1e-3, .last_rate = 1e-4, .start = 100, .decay = 0},
       cosine},
  };
  return rows;
}

const ScheduleRow& find_schedule(std::string_view name) {
  return row_named("schedule", name, schedules());
}

Schedule schedule_of(std::string_view name, int64_t steps) {
  Schedule schedule = find_schedule(name).defaults;
  schedule.steps = steps;
  return schedule;
}

double Schedule::operator()(int64_t s) const { return find_schedule(name).rate(*this, s); }

}  // namespace tete
