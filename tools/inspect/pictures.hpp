// Pictures: what the page draws, as SVG files, for papers and for machines without a screen.
#pragma once
#include <string>

#include "tools/inspect/report.hpp"

namespace tete {

// One SVG a picture, on light paper, in the folder:
//   STEP-SITE-MAP.svg    every head of a map          STEP-mixing.svg      matrices in [-1, 1]
//   STEP-histograms.svg  where the weights lie        STEP-ablation.svg    the loss without each
//   head curves-GROUP.svg     of all runs
// With two runs, each has a folder of its own, "1" and "2".
void write_pictures(const Report& report, const std::string& folder);

}  // namespace tete
