// The walk over a text's statements that finds their flow. The functions of nn/language/builtins/
// tell in `flow` what they do to it.
#pragma once
#include <map>

#include "nn/language/check.hpp"

namespace tete {

// A call of a function, with the flow of what it is given.
struct CallFlow {
  Node& node;
  std::vector<ValueFlow> args;
  std::vector<ValueFlow> keys;  // by key; a key that is not given has no sources
};

// The keys of windows() that say which positions are in one.
enum class WindowKey : uint8_t { dim, into, left, right, stride, count };

class FlowFinder {
 public:
  using Reads = Combination::Reads;
  using Neutral = bool (*)(double hidden);

  // `apart`: M is another sequence than X. The flow has its dimensions already.
  FlowFinder(Checked& program, Flow& flow, bool apart)
      : program_(program), flow_(flow), apart_(apart) {}
  void find();

  // For functions. `out` is the flow of what a call is given, joined: an element is taken to depend
  // on the elements of the same row of each argument, and to be hidden nowhere.

  // True if M is taken for another sequence: what run() will check then follows from the other
  // walk.
  bool is_apart() const { return apart_; }
  // True if one of these counts positions of X and the other those of M, which is another sequence:
  // the order of their numbers says nothing about what a row may read.
  bool crosses(int from, int to) const;
  // True if `dim` counts positions of M, which is another sequence.
  bool is_of_another(int dim) const { return apart_ && flow_.dimensions[dim].counts_m_alone(); }
  Role within(int dim) const { return flow_.dimensions[dim].within; }
  // True if both have one size, as names of one dimension, or by one default.
  bool same_size(int a, int b);
  // True if both are names of one dimension.
  bool same_dimension(int a, int b) const;
  // True if `dim` counts the positions of a sequence, not windows of them.
  bool is_sequence(int dim) const { return program_.dimensions[dim].role != Role::none; }
  // True if the number of positions along `dim` is the length of a sequence or follows from it.
  bool grows(int dim) const;
  // The node reduces these dimensions of a value whose flow is `out`. What a mask hides of it must
  // be neutral: what is hidden then changes no result.
  void reduce(const Node& node, const Names& dims, ValueFlow& out, Neutral neutral,
              Combination::How how = Combination::How::combines);
  // Removes `dim` from the flow of a result that lacks it.
  static void forget(int dim, ValueFlow& out);
  // Reports that `node` reads positions of `dim` that a call may hide, in a value of this flow.
  void report(const Node& node, int dim, Reads reads, Combination::How how);
  // The same, where it depends on how many positions there are, padding included.
  void report_length(const Node& node, int dim, Combination::How how);
  // The call's mask hides its part of a tensor with these names: 0, if the mask is a value.
  void hide_by_mask(const Names& names, int dim, ValueFlow& out) const;
  // Adds to `out` the numbers that an elementwise function has where all its arguments have one.
  void compute_hidden(const CallFlow& call, ValueFlow& out) const;
  // The function reads rows of `dim` at positions that are computed.
  void reads_any(int dim, ValueFlow& out);
  // The same for a result that reads the positions of `dim` in an unknown order, which it reports.
  void drop(const Node& node, int dim, Combination::How how, ValueFlow& out);
  // Reports that rows choose among the positions of `dim` by a value of this flow.
  void choose(const Node& node, int dim, const ValueFlow& by);
  // The result needs all rows of `dim`: a decoder cannot add one to what it has.
  void needs_all(int dim, ValueFlow& out);

  // The clock of what is read at the positions that the node holds, or one without an axis.
  Clock found_by(const Node& node) const;

  // The sequence axis after whose position no piece of `dim` with these numbers ends; or -1. One is
  // position(n) // 2, where stride=2 and left=w - 1.
  int latest_piece(int dim, const Node& number);

  // True if `dim` counts windows whose places these keys say, and no others.
  bool counts_windows(int dim, std::span<const Node::Key> keys);
  // True if `dim` counts windows: no rows that are joined or routed, and not a sequence's
  // positions.
  bool counts_pieces(int dim) const {
    return windows_.contains(dim) && !is_sequence(dim) && !is_joined(dim) && !routed_.contains(dim);
  }
  // The positions of `dim` are in windows now: `at` is where.
  void count(int dim, const Clock& at, ValueFlow& out);
  // True if `dim` has the rows of these axes, one after the other, of which the last is a sequence
  // and the others do not grow with it, here and wherever else it is joined: positions of the last
  // go on along `dim`, and what is in front is before all of them.
  bool joins(int dim, const Names& parts, ValueFlow& out);
  bool is_joined(int dim) const { return joined_.contains(dim); }

  // Rows of an axis are in `places` of `experts` now, as the choices of `node` send them: each
  // place depends on the rows up to its own, whichever that is.
  void route(const Node& node, int rows, int places, int experts, ValueFlow& out);
  // They are rows again. Reports those that other choices sent.
  void unroute(const Node& node, int rows, ValueFlow& out);
  // `places` count positions of `rows`, whatever their own size follows from.
  void count_rows(int rows, int places);
  // True if `dim` counts places that rows of a value of this flow were routed to.
  bool has_places(int dim, const ValueFlow& out) const;
  // Reports that the places are taken for something else: positions, or places of other experts.
  void misplace(const Place& place, int places, ValueFlow& out);
  // Reports the lengths of sequences that a number follows from.
  void report_sizes(const Node& number);

 private:
  // places.cpp
  void make_room_by_queries(const Node& node);
  void rename_places(int from, int to, const std::function<int(int)>& name);
  void keep_experts(const Node& node, ValueFlow& out);
  void keep_experts(const CheckedValue& value, const Names& before, ValueFlow& out);
  bool follows_from_place(const Node& node, int places) const;
  bool stand_for_rows(int places) const;
  bool are_same_places(int a, int b) const;
  void find_places();
  void check_result();
  ValueFlow flow_of(CheckedValue& value);
  void find_loss(CheckedValue& value);
  ValueFlow input(const CheckedValue& value) const;
  ValueFlow renamed(const CheckedValue& value);
  // uses.cpp
  using Changed = std::function<bool(int)>;
  void lose_found(const Place& place, const Changed& changed, ValueFlow& out);
  // calls.cpp
  ValueFlow called(const CheckedValue& value);
  ValueFlow called(const CheckedValue& value, const CheckedCall& call);
  void report_passed(const CheckedCall& call, const CheckedCall::Size& size, const ValueFlow& out);
  void report_combined(const Place& place, int dim, const ValueFlow& out);
  void report_repeated(const CheckedCall& call);
  void report_returned(const CheckedCall& call, int dim);
  void read_memory(const CheckedCall& call, ValueFlow& out);
  void merge(const CheckedValue& value, ValueFlow& out);
  ValueFlow flow_of(Node& node);
  ValueFlow use(const Node& node);
  void pick(const Node& node, int dim, Index at, ValueFlow& out);
  void change_role(int from, int to, ValueFlow& out);
  bool keeps_positions(int from, int to);
  bool counts_joined(int dim, const Names& parts);
  void change_input(const Place& place, int from, int to, ValueFlow& out);
  bool same_number(const Node& a, const Node& b);
  bool same_key(const Node::Key& a, const Node::Key& b);
  void rename(const Place& place, const Names& from, const Names& to, ValueFlow& out);
  void finish(const Names& names, ValueFlow& out) const;
  Sources rows_of(const CheckedValue& value) const;
  void report(const Place& place, int dim, Reads reads, Combination::How how);
  // Reports an axis up to whose positions, or padding, the value reads.
  void report_clocks(const Place& place, int dim, Combination::How how, const ValueFlow& out);

  Checked& program_;
  Flow& flow_;
  const bool apart_;
  bool reads_earlier_queries_ = false;  // the statement under way, as rows of a memory
  // By the dimension that counts windows: the keys of the first call that say where they are.
  std::map<int, std::span<const Node::Key>> windows_ = {};
  // By the dimension that is joined: the axes whose rows it has.
  std::map<int, Names> joined_ = {};
  // By the dimension of places: the rows that are routed there, the value that they choose by, or
  // -1 if there are several, and the experts whose places they are.
  struct Routed {
    int rows, choices, experts;
    bool operator==(const Routed&) const = default;
  };
  std::map<int, Routed> routed_ = {};
  std::vector<const Node*> ways_ = {};  // the functions that route, and those that bring back
};

// The flow of all of these together: an element of the result depends on one of each. It is hidden
// nowhere and counts back along no axis, until a function says so.
ValueFlow joined(const std::vector<ValueFlow>& flows);
// Where a value is hidden after a query's position, it depends on nothing later: that position
// takes the place of the memory's in its clocks.
void settle(ValueFlow& flow);
bool has_clock(const Clocks& clocks, int axis);
// Applies `change` to each clock; those for which it returns no axis are left out.
using ClockChange = std::function<Clock(const Clock&)>;
void change_clocks(Clocks& clocks, const ClockChange& change);
void change_clocks(ValueFlow& flow, const ClockChange& change);

// True for hidden numbers that change no sum, or no maximum.
inline bool is_zero(double hidden) { return hidden == 0; }
inline bool is_lowest(double hidden) { return hidden <= -1e30; }

// The value of an expression of numbers; NaN if it needs a size, or is not followed.
double number_of(const Node& node);

// The pairs of positions that a comparison such as position(m) <= position(n) is false for, or
// true.
std::vector<Hidden> hidden_by_positions(const FlowFinder& finder, const Node& comparison);

// The sequence axis whose positions these numbers never exceed, as in position(n) // 2; or -1.
int latest_position(const Node& node);
// True if windows with this left= end at their row: left=t - 1 for windows of t places.
bool ends_at_row(const Node::Key& left, int places);

// The dimension of which `dim` is another name: in calls, by renaming, or by a default as in
// 'where t = n'. A sequence's source has its role.
int source_of(const Checked& program, int dim);
// Fills in Dimension::head and the program's Flow::dimensions (dimensions.cpp).
void find_dimensions(Checked& program);

}  // namespace tete
