// Ties: which maps stand in the expression of which others, and what is done to them there.
#pragma once
#include "tools/inspect/roles.hpp"

namespace tete {

// Amendments and called defs have dimensions of their own for the same axis.
bool same_axis(const Checked& program, int a, int b);
// The position of an axis among `names`, or -1.
int axis_of(const Checked& program, const Names& names, int axis);

// The statement that makes each value, and the shortest name under which it is watched. Dropout is
// the identity where nothing is trained.
class Aliases {
 public:
  explicit Aliases(const Checked& program);
  int origin(int value) const { return origins_[value]; }
  // -1 if it is watched under no name.
  int shown(int value) const { return shown_[origins_[value]]; }

 private:
  std::vector<int> origins_, shown_;  // by value; shown_ of origins alone
};

std::vector<Roles::Tie> ties_of(const Checked& program, const std::vector<Roles::Map>& maps,
                                const Aliases& aliases);

}  // namespace tete
