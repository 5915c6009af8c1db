// Calls that are programs of their own: their flow is known there.
#include <algorithm>

#include "nn/flow/finder.hpp"

namespace tete {

ValueFlow FlowFinder::called(const CheckedValue& value) {
  std::vector<ValueFlow> flows;
  visit(program_.calls[value.index],
        [&](const CheckedCall& call) { flows.push_back(called(value, call)); });
  return flows.size() == 1 ? flows[0] : joined(flows);
}

// True if a row of X that a program returns may read other rows where its call has no mask.
static bool reads_other_rows(const Checked& program) {
  const auto is_memory = [](const Dimension& d) { return d.role == Role::memory; };
  bool reads = !program.leak.empty() ||
               std::any_of(program.dimensions.begin(), program.dimensions.end(), is_memory);
  for (const CheckedCall& all : program.calls)
    visit(all, [&](const CheckedCall& call) { reads = reads || reads_other_rows(*call.program); });
  return reads;
}

// A row of what a call returns reads its queries' sequence up to the same row, if the call's own
// program does not leak, and all of another sequence but its padding.
ValueFlow FlowFinder::called(const CheckedValue& value, const CheckedCall& call) {
  std::vector<ValueFlow> flows;
  for (const CheckedCall::Passed& passed : call.passed) flows.push_back(flow_.values[passed.value]);
  ValueFlow out = joined(flows);
  lose_found(
      value.place, [](int) { return true; }, out);
  out.from.learned |= !call.program->parameters.empty() || !call.program->calls.empty();
  for (const CheckedCall::Size& size : call.sizes) report_passed(call, size, out);
  report_repeated(call);
  read_memory(call, out);
  const Names& result = call.program->values[call.program->result].dims;
  Names from, to;
  for (int k = 0; k < result.size(); ++k) {
    bool is_given = false;
    for (const CheckedCall::Size& size : call.sizes) {
      const bool is_same = size.is_argument && size.inner == result[k];
      is_given |= is_same;
      if (is_same && !from.contains(size.outer))
        from.push_back(size.outer), to.push_back(value.dims[k + static_cast<int>(call.keeps)]);
    }
    if (!is_given) report_returned(call, result[k]);
  }
  rename(value.place, from, to, out);
  for (const CheckedCall::Passed& passed : call.passed)
    for (int dim : program_.values[passed.value].dims)
      if (!value.dims.contains(dim)) forget(dim, out);
  return out;
}

// The call's program follows the sequences that X and M bring. What it does with another is not
// known here, but that rows of X may find no room in places of experts (R29).
void FlowFinder::report_passed(const CheckedCall& call, const CheckedCall::Size& size,
                               const ValueFlow& out) {
  if (routed_.contains(size.outer))
    return report_clocks(call.place, size.outer, Combination::How::misplaces, out);
  if (!grows(size.outer)) return;
  const bool is_room = call.program->flow.dimensions[size.inner].stands_for_queries &&
                       call.queries >= 0 &&
                       program_.dimensions[call.queries].sequence == Role::query;
  if (is_room) return;
  // Pieces of X's sequence are none: a call on them has no mask.
  const bool is_open =
      program_.dimensions[size.outer].sequence == Role::none && reads_other_rows(*call.program);
  if (!size.is_argument) report(call.place, size.outer, Reads::length, Combination::How::counts);
  else if (is_joined(size.outer) || is_open ||
           call.program->dimensions[size.inner].role == Role::none)
    report_combined(call.place, size.outer, out);
}

// It combines all positions, of which it reads the data or the number alone.
void FlowFinder::report_combined(const Place& place, int dim, const ValueFlow& out) {
  const auto how = Combination::How::combines;
  report_clocks(place, dim, how, out);
  if (!has_clock(out.reads, dim) && grows(dim)) report(place, dim, Reads::length, how);
}

// All repetitions count, whatever row of a value each of them is passed.
void FlowFinder::report_repeated(const CheckedCall& call) {
  for (const CheckedCall::Passed& passed : call.passed)
    if (passed.row >= 0)
      report_clocks(call.place, program_.values[passed.value].dims[passed.row],
                    Combination::How::combines, flow_.values[passed.value]);
  if (call.repeated < 0 || !grows(call.repeated)) return;
  for (Reads reads : {Reads::length, Reads::padding})
    report(call.place, call.repeated, reads, Combination::How::counts);
}

// Pieces of a sequence whose places only the call's program knows.
void FlowFinder::report_returned(const CheckedCall& call, int dim) {
  if (call.program->flow.dimensions[dim].within == Role::none) return;
  for (int axis : {call.queries, call.memory}) {
    if (axis < 0) continue;
    report(call.place, axis, Reads::future, Combination::How::returns);
    report(call.place, axis, Reads::padding, Combination::How::returns);
  }
}

// A memory of the queries' sequence is read up to the query, and so is M by X, which a causal call
// makes one sequence. Other queries read all of it.
void FlowFinder::read_memory(const CheckedCall& call, ValueFlow& out) {
  if (call.memory < 0 || call.memory == call.queries) return;
  const auto sequence = [&](int dim) {
    return dim < 0 ? Role::none : program_.dimensions[dim].sequence;
  };
  const Role of = sequence(call.queries), read = sequence(call.memory);
  const bool is_same =
      call.queries >= 0 && (of == read || (of == Role::query && read == Role::memory));
  if (!is_same) report_combined(call.place, call.memory, out);
  else
    change_clocks(out, [&](const Clock& clock) {
      return clock.axis == call.memory ? Clock{call.queries} : clock;
    });
}

}  // namespace tete
