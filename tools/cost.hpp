// A text and what it costs, as the verbs that tell costs are asked for it.
#pragma once
#include "tools/model_cost.hpp"
#include "tools/options.hpp"

namespace tete {

struct CostRequest {
  std::string target;
  std::vector<std::string> with, dim, use;
  std::string mask = "none";  // or causal
  std::string as = "pairs";   // or mesh
};
void add_cost_request(CLI::App& app, CostRequest& o);

struct CostedText {
  std::shared_ptr<const Checked> program;
  SizeTable sizes;
  CostOptions options;
  Cost cost;
};
CostedText costed(const CostRequest& o);

}  // namespace tete
