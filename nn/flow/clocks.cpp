// The positions that a value reads, and where a mask hides them.
#include <algorithm>

#include "nn/flow/finder.hpp"

namespace tete {

Sources& Sources::operator|=(const Sources& other) {
  queries |= other.queries, memory |= other.memory;
  inputs |= other.inputs, learned |= other.learned;
  return *this;
}

namespace {

void add(Clocks& clocks, const Clock& clock) {
  if (std::find(clocks.begin(), clocks.end(), clock) == clocks.end()) clocks.push_back(clock);
}

// True if `clock` is never later than `limit`: the same one, or a place of its window.
bool is_within(const Clock& clock, const Clock& limit) {
  return clock.axis == limit.axis && clock.found == limit.found && clock.pieces == limit.pieces &&
         (limit.place < 0 || clock.place == limit.place);
}

}  // namespace

void change_clocks(Clocks& clocks, const ClockChange& change) {
  Clocks changed;
  for (const Clock& clock : clocks)
    if (const Clock to = change(clock); to.axis >= 0) add(changed, to);
  clocks = changed;
}

void change_clocks(ValueFlow& flow, const ClockChange& change) {
  change_clocks(flow.reads, change);
  change_clocks(flow.padding, change);
}

bool has_clock(const Clocks& clocks, int axis) {
  return std::any_of(clocks.begin(), clocks.end(),
                     [&](const Clock& clock) { return clock.axis == axis; });
}

// A value that is not hidden has the memory's position at most at the query's, and not in padding.
void settle(ValueFlow& flow) {
  for (size_t pass = 0; pass < flow.hidden.size(); ++pass)
    for (const Hidden& hidden : flow.hidden)
      if (hidden.query != Hidden::before)
        change_clocks(hidden.query == Hidden::padding ? flow.padding : flow.reads,
                      [&](const Clock& clock) {
                        if (!is_within(clock, hidden.memory)) return clock;
                        return Clock{hidden.query == Hidden::padding ? -1 : hidden.query};
                      });
}

ValueFlow joined(const std::vector<ValueFlow>& flows) {
  ValueFlow all;
  for (const ValueFlow& flow : flows) {
    all.from |= flow.from;
    for (const Clock& clock : flow.reads) add(all.reads, clock);
    for (const Clock& clock : flow.padding) add(all.padding, clock);
    all.by_row &= flow.by_row;
  }
  return all;
}

void FlowFinder::forget(int dim, ValueFlow& out) {
  change_clocks(out, [&](const Clock& clock) {
    return clock.axis == dim ? Clock{-1} : clock.place == dim ? clock.of_window() : clock;
  });
  std::erase_if(out.hidden, [&](const Hidden& hidden) { return hidden.mentions(dim); });
  out.past = out.past.without(dim);
}

}  // namespace tete
