// Pictures: those of the page as SVG files, for papers. A browser draws them, as it draws the page.
#pragma once
#include <string>

#include "tools/inspect/report.hpp"

namespace tete {

// The path of the Chromium that draws pictures. Fails (input) if there is none in PATH.
std::string find_browser();

// One SVG a picture, on light paper, in the folder:
//   STEP-SITE-MAP-head-H.svg      a map of one head
//   STEP-maps-MAP.svg             the map of every layer and head
//   STEP-tokens-SITE.svg          what the last token looks at
//   STEP-talk-SITE.svg            what heads say to each other
//   STEP-histogram-SITE-MAP.svg   where the weights lie
//   STEP-mixing.svg               matrices that mix heads, divided by their largest |entry|
//   STEP-ablation.svg             the loss without each head
//   STEP-lens.svg                 what the model would say, by layer
//   curves-GROUP.svg              of all runs
// With two runs, each has a folder of its own, "1" and "2"; and of their newest checkpoints
// "difference" has the second less the first.
void write_pictures(const Report& report, const std::string& browser, const std::string& folder);

}  // namespace tete
