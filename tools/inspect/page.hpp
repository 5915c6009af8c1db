// The page: a report as one HTML file that needs nothing else. The numbers are in it as JSON, and
// tools/inspect/page/ shows them; no text of the report can become markup.
#pragma once
#include <string>

#include "tools/inspect/report.hpp"

namespace tete {

// Maps have 16 bits if all of them fit into `map_bytes` so, and otherwise 8.
std::string page_of(const Report& report, size_t map_bytes = 2'000'000);
void write_page(const Report& report, const std::string& path);

}  // namespace tete
