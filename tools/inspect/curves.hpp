// The curves of a run, from its log.
#pragma once
#include "tools/inspect/report.hpp"

namespace tete {

// The curves of metrics.jsonl in the folder; none where there is no log. A line that is
// not whole, as the last may be while a run goes on, is left out.
std::vector<Curve> read_curves(const std::string& folder);

}  // namespace tete
