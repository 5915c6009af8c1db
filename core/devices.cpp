#include "core/devices.hpp"

#include <string>
#include <vector>

#include "core/error.hpp"

namespace tete {

std::span<const Device> devices() {
  static constexpr Device rows[] = {{"cpu", "the processor", cpu}};
  return rows;
}

Backend& find_device(std::string_view name) {
  std::vector<std::string> names;
  for (const Device& device : devices()) {
    if (device.name == name) return device.get();
    names.push_back(device.name);
  }
  bad_input("unknown device '", name, "'", choice(name, names));
}

}  // namespace tete
