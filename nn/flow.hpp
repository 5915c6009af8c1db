// The flow of data through a text: what each value depends on, where a mask makes it zero, and
// which sequence each dimension belongs to. check() finds it at its end, in one walk over the
// statements (nn/flow/finder.hpp). The leak rule, tiles, decoding and costs read it.
#pragma once
#include <functional>
#include <vector>

#include "nn/language/notation.hpp"

namespace tete {

struct Checked;
struct Node;

// A dimension's role: the first axis of X is the query sequence, the first axis of M the memory
// sequence (R5). Calls pass the role on with the axis.
enum class Role : uint8_t { none, query, memory };

// The tensors that a value depends on, by way of other values or directly.
struct Sources {
  bool queries = false, memory = false;  // a value over this sequence, such as itself
  bool data = false;                     // elements of an input that has a sequence
  bool inputs = false;                   // an input: each sample of a batch has a value of its own
  bool learned = false;  // an input or a parameter that is learned: a gradient goes through it

  Sources& operator|=(const Sources& other);
};

// A query axis and a memory axis of one value.
struct AxisPair {
  int query, memory;  // dimensions
  bool operator==(const AxisPair&) const = default;
};
using AxisPairs = std::vector<AxisPair>;

struct ValueFlow {
  Sources from = {};
  // The pairs for which the value is zero wherever the mask hides the memory position from the
  // query.
  AxisPairs hidden = {};
};

struct DimensionFlow {
  // The sequence whose positions it counts: its own role; the one that it is a part of, as a and b
  // in n=(a b); the memory, if it counts windows over it.
  Role within = Role::none;
  bool windows = false;  // it counts windows over an axis with the memory's role
  bool place = false;    // it counts the positions within a window over the memory
  // True if its size follows from the length of a sequence, but it is not that sequence.
  bool made_of_queries = false, made_of_memory = false;

  bool made_of(Role role) const { return role == Role::query ? made_of_queries : made_of_memory; }
};

// A statement combines all positions of a sequence, or reads one of them for all rows, and what
// the mask hides is not zero there.
struct Combination {
  int value;    // the statement
  Place place;  // of the function or the use
  int dim;      // the sequence's axis
  bool picked;  // true: it reads one position
  bool data;    // true: what it reads depends on the elements of a sequence
};

struct Flow {
  std::vector<ValueFlow> values = {};          // by value
  std::vector<DimensionFlow> dimensions = {};  // by dimension
  std::vector<Combination> combinations = {};  // in the order of evaluation
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

// Fills in Dimension::head and Checked::flow. The statements and their uses must be there.
void find_flow(Checked& program);

}  // namespace tete
