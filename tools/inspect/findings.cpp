#include "tools/inspect/findings.hpp"

#include <algorithm>
#include <cmath>

namespace tete {

namespace {

class Gathering {
 public:
  void add(const Findings& measure, const Finding& head) {
    if (std::isnan(head.value)) return;
    auto at = std::find_if(all_.begin(), all_.end(),
                           [&](const Findings& known) { return known.measure == measure.measure; });
    if (at == all_.end()) at = all_.insert(at, measure);
    at->heads.push_back(head);
  }

  std::vector<Findings> strongest() {
    constexpr size_t few = 3;
    for (Findings& each : all_) {
      std::stable_sort(
          each.heads.begin(), each.heads.end(),
          [](const Finding& a, const Finding& b) { return std::abs(a.value) > std::abs(b.value); });
      each.heads.resize(std::min(few, each.heads.size()));
    }
    return std::move(all_);
  }

 private:
  std::vector<Findings> all_;
};

}  // namespace

std::vector<Findings> findings_of(const Frame& frame) {
  Gathering found;
  for (const Site& site : frame.sites) {
    for (const HeadStatistic& s : site.heads) {
      if (s.map != site.weights) continue;
      const std::vector<double> values = s.values.values();
      for (size_t i = 0; i < values.size(); ++i)
        found.add({s.name, s.meaning, s.unit, {}},
                  {&site, s.map, s.map, static_cast<Index>(i), values[i], s.rows[i]});
    }
    if (!site.ablation) continue;
    const std::vector<double> effects = site.ablation.values();
    for (size_t i = 0; i < effects.size(); ++i)
      found.add(
          {"loss without it", ablation_meaning, "nats a token", {}},
          {&site, site.contribution, site.contribution_map, static_cast<Index>(i), effects[i]});
  }
  return found.strongest();
}

}  // namespace tete
