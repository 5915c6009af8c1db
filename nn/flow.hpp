// The flow of data through a text: what each value depends on, which positions it reads, what a
// mask keeps hidden in it, and which sequence each dimension belongs to. check() finds it at its
// end, in one walk over the statements (nn/flow/finder.hpp). The rules about leaks and padding,
// tiles, decoding and costs read it.
#pragma once
#include <functional>
#include <vector>

#include "nn/language/notation.hpp"

namespace tete {

struct Builtin;
struct Checked;
struct Node;
using Names = Short<int>;  // dimensions, by their number in Checked

// A dimension's role: the first axis of X is the query sequence, the first axis of M the memory
// sequence (R5). Calls pass the role on with the axis.
enum class Role : uint8_t { none, query, memory };

// The tensors that a value depends on, by way of other values or directly.
struct Sources {
  bool queries = false, memory = false;  // a value over this sequence, such as itself
  bool inputs = false;                   // an input: each sample of a batch has a value of its own
  bool learned = false;  // an input or a parameter that is learned: a gradient goes through it

  Sources& operator|=(const Sources& other);
};

// The position of a row: its index along `axis`; or, if `axis` counts windows, the last position of
// the window, or that of the window's `place`. If `found` is given, that value over `axis` holds
// the number: of a position, or, with `pieces`, of a window along that axis.
struct Clock {
  int axis;
  int place = -1;
  int found = -1;
  int pieces = -1;
  bool operator==(const Clock&) const = default;
  // The last position of the window that this is a place of.
  Clock of_window() const { return {axis, -1, found, pieces}; }
};
using Clocks = std::vector<Clock>;

// Wherever the memory's position is after the query's, a value holds one number, whatever the data
// are. `query` may be an axis of either sequence; or `padding`: wherever the memory is padding; or
// `before`: wherever it is before the first position (ValueFlow::past).
struct Hidden {
  static constexpr int padding = -1, before = -2;
  int query;
  Clock memory;
  double number;  // of a run in f64; NaN if it is not known
  // The same of a run in f32, which rounds; 0 where `number` is.
  double in_f32 = static_cast<float>(number);

  bool same_pair(const Hidden& other) const {
    return query == other.query && memory == other.memory;
  }
  bool mentions(int dim) const { return query == dim || memory.axis == dim || memory.place == dim; }
};

// True if one of these is of the same pair.
bool holds(const std::vector<Hidden>& all, const Hidden& hidden);

struct ValueFlow {
  Sources from = {};
  // An element depends on the data up to the latest of these positions, and on none after it.
  Clocks reads = {};
  // It depends on what stands in padding only where one of these positions is padding.
  Clocks padding = {};
  std::vector<Hidden> hidden = {};
  // Axes that count back from the row, so that new places come in front as a sequence grows.
  Names past = {};
  // True if a row over the memory follows from the same row of what it is computed from.
  bool by_row = true;
};

struct DimensionFlow {
  // The sequence whose positions it counts: its own role; the one that it is a part of, as a and b
  // in n=(a b), or counts windows over. It goes along through calls, results and renaming (R17).
  Role within = Role::none;
  int pieces = -1;       // it counts windows: their number in Checked::windows; -1: it does not
  bool windows = false;  // … over an axis with the memory's role
  // True if its size follows from the length of a sequence, but it is not that sequence.
  bool made_of_queries = false, made_of_memory = false;
  // True if it counts places of rows of queries that are routed (R29), and each stands for its row,
  // whichever place that is: a decoder has as many as new rows.
  bool stands_for_queries = false;
  // True if it counts positions of the input X or M, and so their padding: by its size, or as
  // places that they are routed to, gathered or joined.
  bool counts_x = false, counts_m = false;

  // True for M's own positions: if M is another sequence than X, all of them are there from the
  // first row on.
  bool counts_m_alone() const { return counts_m && !counts_x; }

  bool made_of(Role role) const { return role == Role::query ? made_of_queries : made_of_memory; }
};

// A statement reads positions of a sequence that a call may hide from it.
struct Combination {
  enum class Reads : uint8_t {
    future,   // later positions, if the call is causal
    length,   // how many positions there are: the value of a row changes as the sequence grows
    padding,  // what stands in padding
    first,    // position 0, which a call that begins later lacks
  };
  // How it comes to that; nn/language/check/leak.cpp has the words, and what to write instead.
  enum class How : uint8_t {
    combines,
    picks,
    gathers,
    unties,  // gathered rows lose the positions that a value holds
    looks_ahead,
    surrounds,
    shifts,
    splits,
    merges,
    joins,
    joins_gathered,
    joins_pieces,
    counts,
    mixes,
    renames,
    returns,
    misplaces,
    brings_back,
    keeps
  };
  int value;    // the statement
  Place place;  // where the function or the use stands
  int dim;      // the sequence's axis
  Reads reads;
  How how;
  const Builtin* function = nullptr;  // at the place, if there is one
  int beside =
      -1;  // another sequence's axis of what it combines; renames: the axis that it becomes
};

struct Flow {
  std::vector<ValueFlow> values = {};          // by value
  std::vector<DimensionFlow> dimensions = {};  // by dimension
  std::vector<Combination> combinations = {};  // in the order of evaluation
  // The same where M is another sequence than X: a causal mask hides nothing of M.
  std::vector<Combination> combinations_apart = {};
  // True if values over the memory are read at positions that are computed.
  bool reads_any_memory = false;
  // True if new rows depend on earlier rows of values that depend on the queries and the memory: a
  // decoder runs all positions again.
  bool rereads = false;
};

// The sources of an expression.
Sources sources_of(const Node& node, const Flow& flow);

// Marks all values that a marked one is computed from. `ends`: true for values behind which the
// search does not go.
void mark_sources(const Checked& program, std::vector<bool>& marked,
                  const std::function<bool(int)>& ends = {});
// Marks all values that are computed from a marked one; `ends` as above.
void mark_results(const Checked& program, std::vector<bool>& marked,
                  const std::function<bool(int)>& ends = {});

// Fills in Dimension::head and Checked::flow. The statements and their uses must already be there.
void find_flow(Checked& program);

}  // namespace tete
