#include "tools/bench/profile.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/threads.hpp"
#include "tools/bench/measure.hpp"
#include "tools/bench/report.hpp"
#include "tools/table.hpp"

namespace tete {

double Profile::rest() const {
  double known = 0;
  for (const auto& [kernel, use] : uses) known += use.seconds;
  return seconds - known;
}

static Profile profile_of_call(ClockedProcessor& device, const std::function<void()>& work) {
  device.forget();
  const double seconds = seconds_of(work);
  return {seconds - device.clocking(), device.uses()};
}

Profile profile_of(ClockedProcessor& device, const std::function<void()>& work, int calls) {
  work();
  std::vector<Profile> all;
  for (int i = 0; i < calls; ++i) all.push_back(profile_of_call(device, work));
  const auto median = all.begin() + calls / 2;
  std::nth_element(all.begin(), median, all.end(),
                   [](const Profile& a, const Profile& b) { return a.seconds < b.seconds; });
  median->of_calls = calls;
  return *median;
}

// The kernels, the longest first.
static std::vector<std::pair<std::string, ClockedProcessor::Use>> sorted(const Profile& profile) {
  std::vector<std::pair<std::string, ClockedProcessor::Use>> all(profile.uses.begin(),
                                                                 profile.uses.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  return all;
}

void print(const Profile& profile) {
  Table table(1);
  table.add({"", "time", "of all", "calls"});
  const auto add = [&](const std::string& what, double seconds, const std::string& calls) {
    table.add({what, time_text(seconds), digits(100 * seconds / profile.seconds) + "%", calls});
  };
  for (const auto& [kernel, use] : sorted(profile))
    add(kernel, use.seconds, std::to_string(use.calls));
  add(threads() > 1 ? "bookkeeping, waiting" : "bookkeeping", profile.rest(), "");
  add("all", profile.seconds, "");
  std::printf("\n");
  table.print();
  std::printf(
      "profile the call of median time of %d; contractions with the copies that they make\n",
      profile.of_calls);
  if (threads() > 1)
    std::printf("        a kernel that runs on one of %d threads counts as their part\n",
                threads());
}

nlohmann::ordered_json to_json(const Profile& profile) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const auto& [kernel, use] : sorted(profile))
    kernels.push_back({{"kernel", kernel}, {"seconds", use.seconds}, {"calls", use.calls}});
  return {{"seconds", profile.seconds}, {"bookkeeping_s", profile.rest()}, {"kernels", kernels}};
}

}  // namespace tete
