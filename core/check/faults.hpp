// Where a wrong gradient comes from: the operation whose own rule is wrong.
//
// The function is run again with one of its recorded results moved or replaced (RecordWatch). From
// the result backwards: the gradient that arrives at each intermediate value, against what the
// result does when that value moves. The first that is wrong was handed a wrong gradient by an
// operation it went into; each of those is then checked by itself, at the inputs that it had.
#pragma once
#include "core/check/gradcheck.hpp"

namespace tete {

// `report` is a check of f at these inputs that failed. Nothing if no operation can be blamed.
std::optional<Fault> find_fault(const WatchedFunction& f, const Tensors& inputs,
                                const GradCheckOptions& options, const GradReport& report);

}  // namespace tete
