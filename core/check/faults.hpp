// Finds the cause of a wrong gradient: the operation whose own rule is wrong.
//
// The function runs again with one of its recorded results moved or replaced (RecordWatch). From
// the result backwards, the gradient that arrives at each intermediate value is compared with the
// result's change when that value moves. The first wrong one came from an operation that reads the
// value; each of these is then checked by itself, at the inputs that it had.
#pragma once
#include "core/check/gradcheck.hpp"

namespace tete {

// `report` is a check of f at these inputs that failed. Empty if no operation can be blamed.
std::optional<Fault> find_fault(const WatchedFunction& f, const Tensors& inputs,
                                const GradCheckOptions& options, const GradReport& report);

}  // namespace tete
