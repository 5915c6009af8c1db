// The log of a run with --report, besides its curves.
#pragma once
#include "tools/inspect/report.hpp"

namespace tete {

// Each parameter's length of its gradient and of its updates, relative to its own: a group of
// curves for each part of the model, two of them a parameter. None where the log has none.
std::vector<Curve> read_norms(const std::string& folder);

// The text that the model wrote at each validation, one sample each time.
std::vector<WrittenSample> read_samples(const std::string& folder);

}  // namespace tete
