#include "core/devices.hpp"

#include "core/error.hpp"

namespace tete {

std::span<const Device> devices() {
  static constexpr Device rows[] = {{"cpu", "the processor", cpu}};
  return rows;
}

Backend& find_device(std::string_view name) { return row_named("device", name, devices()).get(); }

}  // namespace tete
