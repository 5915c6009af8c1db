// Parts of gradient checks that those of variants and of other texts share.
#pragma once
#include "core/check/gradcheck.hpp"
#include "nn/language/check.hpp"

namespace tete {

// The work of a check: each input is moved again and again, and every value computed anew each
// time.
struct Work {
  double values = 0, numbers = 0;
  bool is_small = false;  // it takes some ten seconds at most
};
Work work_of(const WatchedFunction& f, const Tensors& inputs, int order);

// Normal numbers that depend on the name.
Tensor drawn(const std::string& name, const Shape& shape);
// The names of the value's dimensions, after "batch".
std::vector<std::string> dims_of(const Checked& program, const CheckedValue& value);

// The result of a call, and to each of its numbers the terms of the loss that the call gives (R25),
// so that their gradients are checked with its.
Tensor with_terms(const std::function<Tensor(Tensors& terms)>& call);

// The check's report, a fault with its line in the text. Fails if it would take too long.
GradReport report_of(const WatchedFunction& f, const Tensors& inputs, const Checked& program,
                     const GradCheckOptions& options);

}  // namespace tete
