// A function and its gradients on a device, in f32, held against the processor's, in f64.
#pragma once
#include "core/check/gradcheck.hpp"

namespace tete {

// True if a check compares this input's gradient.
inline bool is_checked(const Tensor& input) { return input && is_real(input.dtype()); }

// The report has a row for the result, and one for each input that is checked. Fails as f does.
GradReport check_on_device(const WatchedFunction& f, const Tensors& inputs,
                           const GradCheckOptions& options);

}  // namespace tete
