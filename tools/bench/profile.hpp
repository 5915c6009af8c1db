// Profiles: the seconds of a work by kernel.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "tools/bench/clocked.hpp"

namespace tete {

// One call of a work.
struct Profile {
  double seconds = 0;  // without those of the clocks
  ClockedProcessor::Uses uses = {};
  int of_calls = 0;  // it has the median time of so many

  double rest() const;
};
// `work`, whose tensors live on `device`, is called once more than is counted.
Profile profile_of(ClockedProcessor& device, const std::function<void()>& work, int calls);
void print(const Profile& profile);
nlohmann::ordered_json to_json(const Profile& profile);

}  // namespace tete
