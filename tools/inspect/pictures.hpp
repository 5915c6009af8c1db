// Pictures: what the page draws, as SVG files, for papers and for machines without a screen.
#pragma once
#include <string>

#include "tools/inspect/report.hpp"

namespace tete {

// One SVG a picture, on light paper, in the folder:
//   STEP-SITE-MAP.svg     every head of a map           STEP-mixing.svg      matrices in [-1, 1]
//   STEP-tokens-SITE.svg  lines from token to token     STEP-histograms.svg  where the weights lie
//   STEP-talk-SITE.svg    what is said between heads    STEP-ablation.svg    the loss without each
//   STEP-lens.svg         what it would say, by layer   curves-GROUP.svg     of all runs
// With two runs, each has a folder of its own, "1" and "2"; and of their newest checkpoints
// "difference" has the second less the first.
void write_pictures(const Report& report, const std::string& folder);

}  // namespace tete
