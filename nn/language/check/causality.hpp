// Finds out from the text if a program reads positions that a causal mask hides.
#pragma once
#include <algorithm>

#include "nn/language/check.hpp"

namespace tete {

// Two facts about a value under a causal mask.
struct Flow {
  bool data = false;    // it depends on a sequence of inputs
  bool hidden = false;  // it is zero wherever the mask hides a memory position from a query
};

class LeakFinder {
 public:
  explicit LeakFinder(const Checked& program);
  // An error sentence with a caret if the program reads hidden positions, or "".
  std::string leak();

  // For functions: the role of a dimension. The parts of a split sequence have the sequence's.
  Role role(int dim) const { return roles_[dim]; }
  // Records windows over the memory: `pieces` counts them, `places` the positions within one. A
  // hidden value is zero place by place; only its minimum over the places hides a whole window.
  void in_pieces(int pieces, int places) {
    roles_[pieces] = Role::memory;
    places_.push_back(places);
  }
  bool is_place(int dim) const { return std::count(places_.begin(), places_.end(), dim) > 0; }
  // The flow of a key's value, as of extra_logit=z.
  Flow flow_of(const Node& node);
  // `node` combines all positions of `dim` in `arg`, whose flow is `flow`: a leak if `dim` is a
  // sequence and `arg` has data. A sum over the memory is no leak if hidden positions are zero.
  void combined(const Node& node, int dim, const Node& arg, const Flow& flow, bool is_sum = false);

 private:
  void found(const Node& node, int dim, const char* what);
  Flow flow_of(const CheckedValue& value);
  Flow use(const Node& node);

  const Checked& program_;
  std::vector<Role> roles_;
  std::vector<int> places_;
  std::vector<Flow> flows_;  // of values
  std::string leak_;
};

}  // namespace tete
