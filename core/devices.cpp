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
  if (const Device* device = find_named(name, devices())) return device->get();
  bad_input("unknown device '", name, "'", choice(name, names_of_rows(devices())));
}

}  // namespace tete
