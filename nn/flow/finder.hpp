// The walk over a text's statements that finds their flow. The functions of nn/language/builtins/
// tell in `hides` what they do to it.
#pragma once
#include "nn/language/check.hpp"

namespace tete {

// A call of a function, with the flow of what it is given.
struct CallFlow {
  const Node& node;
  std::vector<ValueFlow> args;
  std::vector<ValueFlow> keys;  // by key; a key that is not given has no sources
};

class FlowFinder {
 public:
  explicit FlowFinder(Checked& program) : program_(program), flow_(program.flow) {}
  void find();

  // For functions.
  Role within(int dim) const { return flow_.dimensions[dim].within; }
  bool is_place(int dim) const { return flow_.dimensions[dim].place; }
  // All pairs of a query axis and a memory axis among `names`.
  AxisPairs pairs_of(const Names& names) const;
  // `node` combines all positions of `dim` in `arg`, whose flow is `flow`. A sum over the memory is
  // protected if hidden positions are zero. Does nothing if `dim` is no sequence.
  void combined(const Node& node, int dim, const Node& arg, const ValueFlow& flow,
                bool is_sum = false);

 private:
  ValueFlow flow_of(const CheckedValue& value);
  ValueFlow flow_of(const Node& node);
  ValueFlow use(const Node& node);
  Sources rows_of(const CheckedValue& value) const;

  Checked& program_;
  Flow& flow_;
};

// The pairs hidden in any of these, and those hidden in all.
AxisPairs hidden_in_any(const std::vector<ValueFlow>& flows);
AxisPairs hidden_in_all(const std::vector<ValueFlow>& flows);

// Fills in Dimension::head and the program's Flow::dimensions (dimensions.cpp).
void find_dimensions(Checked& program);

}  // namespace tete
