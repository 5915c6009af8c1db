// tete devices: what this machine computes on, by the names that --device takes.
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/devices.hpp"
#include "nn/memory.hpp"
#include "tools/options.hpp"
#include "tools/table.hpp"

namespace tete {

namespace {

struct Named {
  std::string option;  // as --device takes it
  Found found;
};

std::vector<Named> named_devices() {
  std::vector<Named> all;
  for (const Device& kind : devices()) {
    const std::vector<Found> found = kind.found();
    for (size_t i = 0; i < found.size(); ++i)
      all.push_back({text(kind.name, kind.is_one ? "" : text(":", i)), found[i]});
  }
  return all;
}

int list_devices(bool json) {
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  Table table(3);
  for (const auto& [option, found] : named_devices()) {
    lines.push_back({{"device", option},
                     {"name", found.name},
                     {"what", found.what},
                     {"memory", found.memory},
                     {"largest_tensor", found.largest}});
    table.add({option, found.name, found.what,
               found.memory > 0
                   ? size_text(found.memory) + ", a tensor at most " + size_text(found.largest)
                   : ""});
  }
  if (json) std::cout << lines.dump(2) << "\n";
  else table.print();
  return 0;
}

}  // namespace

Run devices_verb(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "the list as JSON");
  app.footer("Example:\n  tete train --device vulkan:0");
  return [json] { return list_devices(*json); };
}

}  // namespace tete
