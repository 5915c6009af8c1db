// Measuring: how long a call takes, by a steady clock, in turns with what it is compared with. On a
// machine that others use as well, a ratio of two times means something only if they were measured
// in turns.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

namespace tete {

// Does something for a while, and says how many seconds one call of it took.
using Turn = std::function<double()>;

// Seconds of a call, one number a turn.
class Timing {
 public:
  void add(double seconds) { seconds_.push_back(seconds); }
  size_t turns() const { return seconds_.size(); }
  // The value below which this part of them lies, interpolated: 0 the least, 0.5 the median.
  double quantile(double part) const;
  double median() const { return quantile(0.5); }
  double min() const { return quantile(0); }

 private:
  std::vector<double> seconds_;
};

// Calls that are short are made until a turn has lasted long enough, after one that is not counted.
// `call` is made at least twice here: nothing that is measured is a first time. `finish` waits for
// the work of calls that return before it is done.
Turn turn_of(
    std::function<void()> call, std::function<void()> finish = [] {});

// Each turn once, in their order; all of that `repeats` times.
std::vector<Timing> in_turns(const std::vector<Turn>& turns, int repeats);

// Rounds of turns, the last of which stands between two turns of `peak`, which probes the
// processor. A round counts if the peak was near its best of all rounds both times: cores that are
// shared with others run at half their speed for seconds. `repeats` rounds are to count, but at
// most three times as many are made, and one for one, which nothing can be held against; if none
// counts, all do.
struct SteadyTurns {
  std::vector<Timing> turns;  // of the rounds that count
  Timing peak;
  int dropped = 0;  // rounds
};
SteadyTurns in_steady_turns(const std::vector<Turn>& turns, const Turn& peak, int repeats);

// Seconds that one call takes.
double seconds_of(const std::function<void()>& call);

// The most memory that this process ever had, in bytes.
size_t peak_resident();

}  // namespace tete
