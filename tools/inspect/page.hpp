// The page: a report as one HTML file that needs nothing else. The numbers are in it as JSON, and
// the scripts of tools/inspect/page/ show them; no text of the report can become markup. They use
// no library: what they draw is rectangles, lines and words, and all of it, with the styles, is 85
// KB a page, where D3 alone would be 280 KB. With 6 layers of 8 heads and 128 tokens a page has 2.4
// MB, and stood complete 0.6 s after it was opened (headless Chromium on two busy cores).
#pragma once
#include <string>

#include "tools/inspect/report.hpp"

namespace tete {

// Maps have 16 bits if all of them fit into `map_bytes` so, and otherwise 8.
std::string page_of(const Report& report, size_t map_bytes = 2'000'000);
void write_page(const Report& report, const std::string& path);

}  // namespace tete
