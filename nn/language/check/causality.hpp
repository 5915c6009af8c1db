// Whether a program reads what a causal mask hides, as far as its text shows.
#pragma once
#include <algorithm>

#include "nn/language/check.hpp"

namespace tete {

// What a value carries under a causal mask.
struct Flow {
  bool data = false;    // it depends on a sequence of inputs
  bool hidden = false;  // it is zero wherever the mask hides a memory position from a query
};

class LeakFinder {
 public:
  explicit LeakFinder(const Checked& program);
  // Why the program is not causal under a causal mask, with a caret, or "".
  std::string leak();

  // For functions: the parts of a split sequence have its role.
  Role role(int dim) const { return roles_[dim]; }
  // The memory is seen as `pieces` of several positions, `places`. What is hidden of them is so
  // place by place; only the smallest over the places hides the whole piece.
  void in_pieces(int pieces, int places) {
    roles_[pieces] = Role::memory;
    places_.push_back(places);
  }
  bool is_place(int dim) const { return std::count(places_.begin(), places_.end(), dim) > 0; }
  // Of a function's argument with a name.
  Flow flow_of(const Node& node);
  // `node` combines all positions of `dim` of `arg`, whose flow is `flow`: a leak if that is a
  // sequence of data. In a sum over the memory hidden zeros do no harm.
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
