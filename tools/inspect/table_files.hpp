// Table files: a report's tables in CSV.
#pragma once
#include "tools/inspect/report.hpp"

namespace tete {

// Every table of the report, those of what the page draws too (matrices, histograms, curves), as
// FOLDER/NAME.csv. The first columns say which run and, of what a checkpoint shows, which step.
// With two runs there are also rows of the second less the first, of their newest checkpoints.
void write_tables(const Report& report, const std::string& folder);

}  // namespace tete
