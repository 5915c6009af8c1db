// Findings: the heads that stand out, by measure.
#pragma once
#include "tools/inspect/report.hpp"

namespace tete {

// One head of a site.
struct Finding {
  const Site* site;
  std::string tensor;  // "W"; "O" of the loss without it
  std::string map;     // the map that has its picture; "" where there is none
  Index picture;       // of the map
  double value;
  Index row = -1;  // the query that shows it most; -1: none
};

struct Findings {
  std::string measure, meaning, unit;
  std::vector<Finding> heads;  // the strongest first, a few
};

// For each measure of the maps by which values are summed, and for the loss without each head.
std::vector<Findings> findings_of(const Frame& frame);

}  // namespace tete
