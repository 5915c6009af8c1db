// Schedules: the learning rate as a function of the step.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tete {

struct Schedule {
  std::string name = "inverse_sqrt";
  int64_t steps = 2000;   // T, the length of the whole run
  double rate = 1;        // a factor on inverse_sqrt; the rate of constant; the peak of cosine
  double last_rate = 0;   // where cosine ends
  int64_t start = 10000;  // steps of constant rate (inverse_sqrt) or of warm-up (cosine)
  double decay = 0.1;     // the last part of the run in which inverse_sqrt falls to zero
  // The rate of step s = 0, 1, … T-1.
  double operator()(int64_t s) const;
};

// The table of schedules: what each is, and its defaults.
struct ScheduleRow {
  const char* name;
  const char* what;  // one line for a list
  Schedule defaults;
  double (*rate)(const Schedule& schedule, int64_t s);
};
const std::vector<ScheduleRow>& schedules();
const ScheduleRow& find_schedule(std::string_view name);
// The defaults of a name for a run of `steps` steps.
Schedule schedule_of(std::string_view name, int64_t steps);

}  // namespace tete
